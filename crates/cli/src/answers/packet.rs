//! A packet in a line, as tcpdump prints it, and behind that what tcpdump prints with `-v` and chains decide by or
//! change.

use onefold_packet::print;

/// A frame in a line. What is cut off is said to be.
pub fn line(frame: &[u8]) -> String {
    print::frame(frame) + &print::frame_details(frame)
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn packets_are_told_with_their_time_to_live() {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        frame.extend([
            0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ]);
        frame.extend([
            4, 0, 0, 22, 0, 0, 0, 7, 0, 0, 0, 0, 0x50, 2, 2, 0, 0, 0, 0, 0,
        ]);
        let told = "IP 10.0.0.1.1024 > 10.0.0.2.22: Flags [S], seq 7, win 512, length 0, ttl 64";
        assert_eq!(line(&frame), told);
        frame[21] = 2;
        let told = "IP 10.0.0.1 > 10.0.0.2: ip-proto-6, ttl 64, offset 16, flags [none], 20 bytes";
        assert_eq!(line(&frame), told);
    }
}
