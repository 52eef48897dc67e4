"""Ports for the servers of tests."""
import contextlib
import random
import socket


def free_ports(n):
    """Ports that nobody has right now, below those that the kernel gives to connections: nobody has them soon either."""
    rng, found = random.SystemRandom(), []
    while len(found) < n:
        port = rng.randrange(10000, 18000)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("", port))
            found += [port] if port not in found else []
    return found


def free_port():
    return free_ports(1)[0]
