//! What the `router` kind says and does not say, as RFC 1812, 4443 and 4861 ask: redirects, the rate of errors, whom it
//! answers, and what it does not forward.

mod packets;
mod v4;
mod v6;
mod ways;
