"""Address ranges of the local topology, how many hosts fit into them, and addresses in texts."""

import ipaddress

SERVICES = "198.19.255.53", "fd00:198:19:ff::53"  # which all clients ask
SERVICE_PREFIXES = ("198.19.255.0/24", "fd00:198:19:ff::/64")
META4 = "198.18.128.0/17"
META6 = "fd00:198:18::/48"
# All addresses behind the resolvers that are the testbed's own.
PREFIXES = (META4, META6, "198.19.253.0/24", "198.19.254.0/24", "fd00:198:19:fd::/64", "fd00:198:19:fe::/64")
MOST_CLIENTS = 120  # above, their control links would lie where the meta addresses do
MOST_LINKS = 128  # of two addresses each
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def parsed(text: str, error: Exception) -> Address:
    """The address; raises the error where the text is none."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise error from None
