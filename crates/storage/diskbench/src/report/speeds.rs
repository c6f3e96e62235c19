use super::{DiskReport, Report};
use crate::measure::Subject;
use crate::workload::Workload;
use braid_pool::speed::{MeasuredDisk, MeasuredLayout};

pub(super) fn disks(disks: &[DiskReport]) -> Vec<MeasuredDisk> {
    disks.iter().filter_map(Option::<MeasuredDisk>::from).collect()
}

/// Those with sequential figures and with disks all of one kind, since `plan` requires that.
pub(super) fn layouts(report: &Report) -> Vec<MeasuredLayout> {
    let of = |layout: &super::LayoutReport| {
        let median = |workload| layout.median(Subject::Files(workload));
        let mut kinds = layout
            .disks
            .iter()
            .map(|path| report.disks.iter().find(|disk| disk.path == *path).map(|disk| disk.kind));
        let kind = kinds.next()??;
        kinds.all(|other| other == Some(kind)).then_some(())?;
        Some(MeasuredLayout {
            layout: layout.layout?,
            disks: layout.disks.len(),
            kind,
            read_one: median(Workload::ReadOne)?,
            read_many: median(Workload::ReadMany)?,
            write: median(Workload::WriteOne)?,
            random_read: median(Workload::RandomRead),
            random_write: median(Workload::RandomWrite),
            rebuild_seconds: None,
        })
    };
    report.layouts.iter().filter_map(of).collect()
}
