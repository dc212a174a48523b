//! System calls that a data plane never makes are refused from now on (seccomp).

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Is, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter_all_threads,
};
use std::collections::BTreeMap;

/// How much is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// All that is listed here.
    All,
    /// But what drivers of DPDK do when a device comes back: sockets and programs of their own.
    ForDrivers,
}

/// Other programs, other processes' memory, other namespaces and roots, the kernel itself and its modules, mounts,
/// clocks, keys, and ways around the other rules (files by handles, rings of system calls).
const NEVER: [i64; 62] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_open,
    libc::SYS_kcmp,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    libc::SYS_vhangup,
    libc::SYS_personality,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setgroups,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_capset,
];

/// Commands of bpf(2) that use what is there: look-ups and updates of maps, a trial run, what a program is, another
/// program in a link's place (`linux/bpf.h`). All others make something.
const BPF: [u64; 7] = [1, 2, 3, 10, 15, 24, 29];

/// Sockets that need no privilege: others are asked for.
const FAMILIES: [libc::c_int; 4] = [
    libc::AF_UNIX,
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_NETLINK,
];

/// Refuses them, in all threads; how many.
pub fn refuse(how: Refused) -> Result<usize, String> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        NEVER.iter().map(|n| (*n, Vec::new())).collect();
    // x86 has these besides
    #[cfg(target_arch = "x86_64")]
    for n in [
        libc::SYS_fork,
        libc::SYS_vfork,
        libc::SYS_kexec_file_load,
        libc::SYS_iopl,
        libc::SYS_ioperm,
        libc::SYS_modify_ldt,
        libc::SYS_uselib,
        libc::SYS_ustat,
    ] {
        rules.insert(n, Vec::new());
    }
    // threads, but no processes
    let thread = libc::CLONE_THREAD as u64;
    rules.insert(
        libc::SYS_clone,
        vec![rule(vec![(0, Is::MaskedEq(thread), 0)])?],
    );
    if how == Refused::All {
        let others =
            |known: &mut dyn Iterator<Item = u64>| rule(known.map(|n| (0, Is::Ne, n)).collect());
        rules.insert(libc::SYS_bpf, vec![others(&mut BPF.iter().copied())?]);
        let mut families = FAMILIES.iter().map(|f| *f as u64);
        rules.insert(libc::SYS_socket, vec![others(&mut families)?]);
    }
    let n = rules.len();
    // how a thread is made with it cannot be seen from here; the C library goes on with clone(2)
    let unseen = [(libc::SYS_clone3, Vec::new())].into();
    apply(unseen, libc::ENOSYS)?;
    apply(rules, libc::EPERM)?;
    Ok(n + 1)
}

fn rule(conditions: Vec<(u8, Is, u64)>) -> Result<SeccompRule, String> {
    let all = conditions.into_iter().map(|(i, is, value)| {
        let width = match is {
            Is::MaskedEq(_) => Width::Qword,
            _ => Width::Dword,
        };
        SeccompCondition::new(i, width, is, value)
    });
    let all: Result<Vec<_>, _> = all.collect();
    let made = all.and_then(SeccompRule::new);
    made.map_err(|e| e.to_string())
}

fn apply(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: libc::c_int) -> Result<(), String> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(|e| e.to_string())?;
    let refused = SeccompAction::Errno(errno as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, architecture);
    let filter: BpfProgram = filter
        .and_then(TryInto::try_into)
        .map_err(|e| e.to_string())?;
    apply_filter_all_threads(&filter).map_err(|e| e.to_string())
}
