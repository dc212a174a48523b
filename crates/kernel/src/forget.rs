//! A namespace forgets all connections, as `conntrack -F` has it do.

use crate::KernelError;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};
use onefold_chain::kernel::{KernelForm, KernelPlan};
use onefold_nf::NetSpace;
use std::os::fd::AsRawFd;

/// NFNL_SUBSYS_CTNETLINK and IPCTNL_MSG_CT_DELETE (linux/netfilter/nfnetlink_conntrack.h).
const DELETE: u16 = 1 << 8 | 2;
/// NLM_F_REQUEST and NLM_F_ACK (linux/netlink.h).
const FLAGS: u16 = 1 | 4;
/// A header, and what follows it in messages of netfilter: family (any), version, number.
const LEN: usize = 16 + 4;

/// Functions whose rules ask about connections, by number.
pub(crate) fn trackers(plan: &KernelPlan) -> impl Iterator<Item = usize> {
    let tracks = |f: &KernelForm| matches!(f, KernelForm::Firewall(w) if w.tracks);
    let all = plan.functions.iter().enumerate();
    all.filter(move |(_, f)| tracks(&f.form)).map(|(i, _)| i)
}

/// See the module's text.
///
/// # Errors
/// The kernel refuses it: it has no connection tracking that can be told.
pub(crate) fn forget(space: &NetSpace) -> Result<(), KernelError> {
    const DOING: &str = "having the kernel forget its connections (nf_conntrack_netlink)";
    let done = space.within(ask).map_err(KernelError::system(DOING))?;
    done.map_err(|e| KernelError::system(DOING)(e.into()))
}

fn ask() -> Result<(), Errno> {
    let s = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkNetFilter,
    )?;
    let mut message = [0u8; LEN];
    message[..4].copy_from_slice(&(LEN as u32).to_ne_bytes());
    message[4..6].copy_from_slice(&DELETE.to_ne_bytes());
    message[6..8].copy_from_slice(&FLAGS.to_ne_bytes());
    sendto(
        s.as_raw_fd(),
        &message,
        &NetlinkAddr::new(0, 0),
        MsgFlags::empty(),
    )?;
    // the answer: a header, and an error's number, which is zero
    let mut answer = [0u8; 256];
    let n = recv(s.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    match answer.get(16..20).and_then(|b| b.first_chunk::<4>()) {
        Some(b) if n >= 20 => match i32::from_ne_bytes(*b) {
            0 => Ok(()),
            e => Err(Errno::from_raw(e.wrapping_neg())),
        },
        _ => Err(Errno::EBADMSG),
    }
}
