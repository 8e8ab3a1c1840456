"""TCP ports for the programs that tests start."""

import pathlib
import random
import socket

_given = set()


def free_port():
    """A free port for a program that binds it later. It is below the ephemeral range, from which the system
    could give it to another connection meanwhile."""
    lowest_handed_out = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(10000, max(lowest_handed_out, 20000))
        if port in _given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                _given.add(port)
                return port
            except OSError:
                continue
