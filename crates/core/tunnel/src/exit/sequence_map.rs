//! A map by number for numbers that mostly come in order and go in order. It
//! keeps its memory, so that what passes through allocates nothing.

use std::collections::VecDeque;

/// Places kept when it becomes empty.
const KEPT: usize = 256;

/// Values by number. Taking the first and adding behind the last cost nothing;
/// in between, eight bytes of each number behind are moved.
#[derive(Debug)]
pub(super) struct SequenceMap<T> {
    /// Ascending; the second is an index into `places`.
    order: VecDeque<(u64, u32)>,
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for SequenceMap<T> {
    fn default() -> Self {
        Self { order: VecDeque::new(), places: Vec::new(), free: Vec::new() }
    }
}

impl<T> SequenceMap<T> {
    /// Adds a value, in place of the one that was there.
    pub fn insert(&mut self, number: u64, value: T) {
        let position = match self.find(number) {
            Ok(position) => {
                if let Some(place) = self.place(position) {
                    *place = Some(value);
                }
                return;
            }
            Err(position) => position,
        };
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.places.push(None);
                self.places.len() as u32 - 1
            }
        };
        if let Some(place) = self.places.get_mut(place as usize) {
            *place = Some(value);
        }
        self.order.insert(position, (number, place));
    }

    /// The value of this number.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let position = self.find(number).ok()?;
        self.place(position)?.as_mut()
    }

    /// Takes it out.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        let position = self.find(number).ok()?;
        let value = self.place(position)?.take();
        let (_, place) = self.order.remove(position)?;
        self.free.push(place);
        if self.order.is_empty() && self.places.len() > KEPT {
            *self = Self::default();
        }
        value
    }

    /// The least number and its value.
    pub fn first(&self) -> Option<(u64, &T)> {
        let &(number, place) = self.order.front()?;
        Some((number, self.places.get(place as usize)?.as_ref()?))
    }

    /// As [`Self::first`].
    pub fn first_mut(&mut self) -> Option<(u64, &mut T)> {
        let &(number, place) = self.order.front()?;
        Some((number, self.places.get_mut(place as usize)?.as_mut()?))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// All values, in no order.
    #[cfg(test)]
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten()
    }

    fn find(&self, number: u64) -> Result<usize, usize> {
        match (self.order.front(), self.order.back()) {
            (Some((first, _)), _) if *first == number => Ok(0),
            (_, Some((last, _))) if *last < number => Err(self.order.len()),
            _ => self.order.binary_search_by_key(&number, |(n, _)| *n),
        }
    }

    fn place(&mut self, position: usize) -> Option<&mut Option<T>> {
        let &(_, place) = self.order.get(position)?;
        self.places.get_mut(place as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_holds_what_a_tree_holds(
            steps in prop::collection::vec((0u64..600, any::<bool>()), 0..2000),
        ) {
            let (mut map, mut tree) = (SequenceMap::default(), BTreeMap::new());
            for (step, (number, add)) in steps.into_iter().enumerate() {
                if add {
                    map.insert(number, step);
                    tree.insert(number, step);
                } else {
                    prop_assert_eq!(map.remove(number), tree.remove(&number));
                }
                prop_assert_eq!(map.len(), tree.len());
                prop_assert_eq!(map.is_empty(), tree.is_empty());
                let first = tree.first_key_value().map(|(n, v)| (*n, v));
                prop_assert_eq!(map.first(), first);
                prop_assert_eq!(map.first_mut().map(|(n, v)| (n, *v)), first.map(|(n, v)| (n, *v)));
                prop_assert_eq!(map.get_mut(number), tree.get_mut(&number));
                prop_assert_eq!(map.values().count(), tree.len());
            }
        }
    }
}
