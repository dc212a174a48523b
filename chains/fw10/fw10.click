// A firewall with ten rules; frames pass unchanged.
FromDevice(0)
  -> Strip(14)
  -> CheckIPHeader
  -> IPFilter(deny src net 10.13.0.0/16,
              allow tcp && dst port 80,
              allow tcp && dst port 443,
              deny tcp && dst port 25,
              allow udp && dst port 53,
              allow udp && dst port 123,
              deny dst net 198.18.13.0/24,
              allow icmp type echo,
              allow src net 10.0.0.0/8 && dst net 198.18.0.0/15,
              deny all)
  -> Unstrip(14)
  -> ToDevice(1);
