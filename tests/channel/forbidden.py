"""Spellings of addresses that no webhook may reach.

The networks are written out again here, from the registries of special addresses: a network that
the guard forgets is missed by the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

IPV4_NETWORKS = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32",
    "169.254.0.0/16", "169.254.169.254/32", "169.254.170.2/32", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16",
    "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4",
    "240.0.0.0/4", "255.255.255.255/32",
)  # fmt: skip
IPV6_NETWORKS = (
    "::/128", "::1/128", "::/96", "::ffff:0:0/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64",
    "2001::/32", "2001:1::/32", "2001:2::/48", "2001:3::/32", "2001:4:112::/48", "2001:10::/28",
    "2001:20::/28", "2001:30::/28", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20", "4000::/3",
    "5f00::/16", "8000::/3", "a000::/3", "c000::/3", "e000::/4", "f000::/5", "fc00::/7",
    "fd00:ec2::254/128", "fe80::/10", "fec0::/10", "ff00::/8", "ff02::1/128",
)  # fmt: skip
PUBLIC = ("93.184.216.34", "8.8.8.8", "2606:4700:4700::1111", "2002:808:808::1", "64:ff9b::808:808")
_WIDE = str.maketrans("0123456789", "０１２３４５６７８９")
_CIRCLED = str.maketrans("123456789", "①②③④⑤⑥⑦⑧⑨")


def edges(network: IPv4Network | IPv6Network) -> set[int]:
    """The first address, the last one, and one between them."""
    first, last = int(network[0]), int(network[-1])
    return {first, last, (first + last) // 2}


def forbidden_ipv4() -> list[IPv4Address]:
    """The edges of all networks of IPv4."""
    return sorted(
        IPv4Address(at) for network in IPV4_NETWORKS for at in edges(IPv4Network(network))
    )


def forbidden_ipv6() -> list[IPv6Address]:
    """The edges of all networks of IPv6, and IPv6 around the edges of IPv4."""
    plain = [IPv6Address(at) for network in IPV6_NETWORKS for at in edges(IPv6Network(network))]
    return [*plain, *(address for inner in forbidden_ipv4() for address in around(inner))]


def around(inner: IPv4Address) -> Iterator[IPv6Address]:
    """Addresses of IPv6 that lead to one of IPv4."""
    low, flipped, public = int(inner), int(inner) ^ 0xFFFF_FFFF, int(IPv4Address("8.8.8.8"))
    site = int(IPv6Address("2606:4700::"))
    yield IPv6Address(low)  # compatible
    yield IPv6Address(0xFFFF << 32 | low)  # mapped
    yield IPv6Address(0xFFFF << 48 | low)  # translated
    yield IPv6Address(0x64_FF9B << 96 | low)  # NAT64
    yield IPv6Address(0x64_FF9B_0001 << 80 | low)  # NAT64 inside a site
    yield IPv6Address(0x2002 << 112 | low << 80 | 1)  # 6to4
    yield IPv6Address(0x2001_0000 << 96 | public << 64 | flipped)  # Teredo, its client
    yield IPv6Address(0x2001_0000 << 96 | low << 64 | public ^ 0xFFFF_FFFF)  # Teredo, its server
    yield IPv6Address(site | 0x5EFE << 32 | low)  # ISATAP
    yield IPv6Address(site | 0x0200_5EFE << 32 | low)


def hosts_of_ipv4(address: IPv4Address) -> Iterator[str]:
    """Hosts of URLs that some client or resolver reads as one address of IPv4."""
    whole, (a, b, c, d) = int(address), address.packed
    plain = str(address)
    yield from (plain, f"{plain}.", f"{plain}..")
    yield from (str(whole), hex(whole), f"0X{whole:08X}", f"0{whole:o}", f"{whole}.")
    yield from (
        f"{a}.{whole & 0xFFFFFF}",
        f"{a}.{b}.{whole & 0xFFFF}",
        f"{a:#x}.{whole & 0xFFFFFF}",
    )
    yield ".".join(f"0{octet:o}" for octet in (a, b, c, d))
    yield ".".join(f"{octet:#x}" for octet in (a, b, c, d))
    yield ".".join(f"{octet:03d}" for octet in (a, b, c, d))
    yield f"0{a:o}.{b:#x}.{c}.{d}"
    yield f"{a + 256}.{b}.{c}.{d}"
    yield "".join(f"%{ord(character):02x}" for character in plain)
    yield plain.replace(".", "%2e")
    yield plain.translate(_WIDE)
    yield plain.translate(_CIRCLED)
    yield plain.replace(".", "。")
    yield from (f"{plain}%00", f"{plain}%2f", f"{plain}%25eth0", f"[{plain}]")
    yield from (f"user@{plain}", f"user:pass@{plain}", f"@{plain}", f"example.com@{plain}")
    yield from (f"example.com\\@{plain}", f"{plain}\\.example.com", f"example.com%40{plain}")
    yield from (f"{plain}:443", f"{plain}:80", f"{plain}:22", f"{plain}:0443", f"{plain}:8443")
    yield from (f" {plain}", f"{plain} ", f"{plain}\t", f"{plain}\n", f"\u00ad{plain}")


def hosts_of_ipv6(address: IPv6Address) -> Iterator[str]:
    """Hosts of URLs that are one address of IPv6."""
    yield f"[{address}]"
    yield f"[{address.exploded.upper()}]"
    yield f"[{address}%25eth0]"
    yield f"[{address}%lo]:8443"


def forbidden_urls() -> list[str]:
    """All spellings, as URLs."""
    hosts = [host for address in forbidden_ipv4() for host in hosts_of_ipv4(address)]
    hosts += [host for address in forbidden_ipv6() for host in hosts_of_ipv6(address)]
    dotted = [str(IPv6Address(0xFFFF << 32 | int(address))) for address in forbidden_ipv4()]
    hosts += [f"[{address}]" for address in dotted]
    hosts += [f"[::ffff:{address}]" for address in forbidden_ipv4()]
    return [f"https://{host}/in" for host in dict.fromkeys(hosts)]
