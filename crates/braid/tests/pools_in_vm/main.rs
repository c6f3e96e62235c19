//! `braid pool` in a second kernel: where this one may lack something (md), and where the power is
//! cut while a pool isn't as fstab has it. Cut at any step: `pool_every_cut_in_vm`; on LUKS:
//! `pools_encrypted_in_vm`.

#[path = "../machine/mod.rs"]
mod machine;
mod md_in_vm;
mod power_cuts;
