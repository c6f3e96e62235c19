//! One pack of a repository, blob by blob: which are readable, and a new pack made of those
//! (<https://restic.readthedocs.io/en/stable/100_references.html#pack-format>).

use crate::Error;
use crate::store::Name;
use crate::vault::Vault;
use aes256ctr_poly1305aes::Aes256CtrPoly1305Aes;
use aes256ctr_poly1305aes::aead::{Aead, AeadInPlace, Nonce};
use bytes::Bytes;
use rustic_core::repofile::{BlobType, IndexBlob, IndexPack};
use rustic_core::{BlobId, FileType, Id, WriteBackend};
use sha2::{Digest, Sha256};

/// Sealed data has its nonce before it and its tag behind it.
const NONCE_BYTES: usize = 16;
/// AES-256's key, and both of Poly1305-AES.
const KEY_BYTES: usize = 32 + 16 + 16;
/// Corrupt data is read once more: it may have been damaged on the way.
pub(crate) const TRIES: usize = 3;
/// Largest blob accepted: restic and Braid cut files into chunks of at most 8 MiB; a folder's list
/// may be longer.
const LARGEST_PIECE: usize = 1 << 30;

/// How much of a pack is intact.
pub(crate) struct Inspected<Good> {
    /// All of it is what it should be.
    pub is_whole: bool,
    /// None of it is there.
    pub is_gone: bool,
    /// The blobs that are readable.
    pub good: Vec<Good>,
    /// The others.
    pub bad: Vec<BlobId>,
}

impl Inspected<(IndexBlob, Bytes)> {
    pub(crate) fn without_content(self) -> Inspected<BlobId> {
        let Inspected { is_whole, is_gone, good, bad } = self;
        Inspected { is_whole, is_gone, good: good.iter().map(|(blob, _)| blob.id).collect(), bad }
    }
}

/// Reads the pack, then each corrupt blob once more on its own: a disk with a bad sector can still
/// read the others.
///
/// # Errors
/// The target can't be reached.
pub(crate) fn inspect(
    vault: &Vault,
    pack: &IndexPack,
) -> Result<Inspected<(IndexBlob, Bytes)>, Error> {
    let (courier, name, size) = (vault.courier(), name_of(pack), u64::from(pack.pack_size()));
    let (mut whole, mut is_as_named) = (None, false);
    for _ in 0..TRIES {
        whole = courier.part(&name, 0..size)?;
        let Some(content) = &whole else { break };
        is_as_named = Id::new(Sha256::digest(content).into()) == *pack.id;
        if is_as_named {
            break;
        }
    }
    let is_gone = whole.is_none() && courier.part(&name, 0..1)?.is_none();
    let mut all = Inspected { is_whole: false, is_gone, good: vec![], bad: vec![] };
    for blob in &pack.blobs {
        let start = u64::from(blob.location.offset);
        let range = start..start + u64::from(blob.location.length);
        let mut came = whole.as_ref().and_then(|whole| {
            let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).ok());
            let (start, end) = (start?, end?);
            (end <= whole.len()).then(|| whole.slice(start..end))
        });
        for _ in 0..if is_gone { 0 } else { TRIES } {
            if came.as_ref().is_some_and(|sealed| is_good(vault, blob, sealed)) {
                break;
            }
            came = courier.part(&name, range.clone())?;
        }
        match came.filter(|sealed| is_good(vault, blob, sealed)) {
            Some(sealed) => all.good.push((*blob, sealed)),
            None => all.bad.push(blob.id),
        }
    }
    all.is_whole = is_as_named && all.bad.is_empty();
    Ok(all)
}

/// A new pack of the readable blobs of another; none where there are none.
///
/// # Errors
/// The target fails.
pub(crate) fn write_good(vault: &Vault, pack: &IndexPack) -> Result<Option<IndexPack>, Error> {
    let good = inspect(vault, pack)?.good;
    if good.is_empty() {
        return Ok(None);
    }
    let (mut content, mut header, mut blobs) = (vec![], vec![], vec![]);
    for (mut blob, sealed) in good {
        blob.location.offset = u32::try_from(content.len()).map_err(|_| too_large(pack))?;
        header.extend(header_entry(&blob));
        content.extend_from_slice(&sealed);
        blobs.push(blob);
    }
    let header = sealed(vault, &header)?;
    content.extend_from_slice(&header);
    content.extend_from_slice(
        &u32::try_from(header.len()).map_err(|_| too_large(pack))?.to_le_bytes(),
    );
    let id = Id::new(Sha256::digest(&content).into());
    let courier = vault.courier();
    vault.told(courier.write_bytes(FileType::Pack, &id, false, Bytes::from(content).into()))?;
    Ok(Some(IndexPack { id: id.into(), blobs, time: pack.time, size: None }))
}

/// A file that is named by the digest of its contents.
pub(crate) fn sealed_file(vault: &Vault, text: &[u8]) -> Result<(Id, Bytes), Error> {
    let content = sealed(vault, text)?;
    Ok((Id::new(Sha256::digest(&content).into()), content.into()))
}

fn is_good(vault: &Vault, blob: &IndexBlob, sealed: &[u8]) -> bool {
    let Some(plain) = opened(vault, sealed) else { return false };
    let plain = match blob.location.uncompressed_length {
        None => plain,
        Some(length) => {
            let length = usize::try_from(length.get()).unwrap_or(usize::MAX);
            if length > LARGEST_PIECE {
                return false;
            }
            let mut unpacked = Vec::with_capacity(length);
            if zstd_safe::decompress(&mut unpacked, &plain).ok() != Some(length) {
                return false;
            }
            unpacked
        }
    };
    Id::new(Sha256::digest(&plain).into()) == *blob.id
}

fn header_entry(blob: &IndexBlob) -> Vec<u8> {
    let compressed = blob.location.uncompressed_length;
    let kind: u8 = match (blob.tpe, compressed) {
        (BlobType::Data, None) => 0,
        (BlobType::Tree, None) => 1,
        (BlobType::Data, Some(_)) => 2,
        (BlobType::Tree, Some(_)) => 3,
    };
    let mut entry = vec![kind];
    entry.extend(blob.location.length.to_le_bytes());
    entry.extend(compressed.into_iter().flat_map(|length| length.get().to_le_bytes()));
    // The library gives a digest's bytes only as digits.
    let digits = blob.id.to_hex();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    entry.extend(digits.as_bytes().chunks(2).filter_map(byte));
    entry
}

fn sealed(vault: &Vault, plain: &[u8]) -> Result<Vec<u8>, Error> {
    let mut nonce = [0; NONCE_BYTES];
    let failed = |what: String| Error::Format(format!("encrypting: {what}"));
    getrandom::fill(&mut nonce).map_err(|error| failed(error.to_string()))?;
    let mut sealed = [&nonce[..], plain].concat();
    let tag = cipher(vault)
        .and_then(|cipher| {
            let plain = sealed.get_mut(NONCE_BYTES..)?;
            cipher.encrypt_in_place_detached(&nonce.into(), &[], plain).ok()
        })
        .ok_or_else(|| failed("the key is no key".to_owned()))?;
    sealed.extend_from_slice(&tag);
    Ok(sealed)
}

fn opened(vault: &Vault, sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, sealed) = sealed.split_at_checked(NONCE_BYTES)?;
    let nonce = Nonce::<Aes256CtrPoly1305Aes>::from_slice(nonce);
    cipher(vault)?.decrypt(nonce, sealed).ok()
}

fn cipher(vault: &Vault) -> Option<Aes256CtrPoly1305Aes> {
    let key = vault.master_key()?;
    let key: [u8; KEY_BYTES] =
        [&key.encrypt[..], &key.mac.k, &key.mac.r].concat().try_into().ok()?;
    Some(Aes256CtrPoly1305Aes::new(&key.into()))
}

fn name_of(pack: &IndexPack) -> Name {
    Name::new(FileType::Pack, &pack.id)
}

fn too_large(pack: &IndexPack) -> Error {
    Error::Damaged(format!("{} is larger than 4 GiB", name_of(pack).path()))
}
