"""Loaded by every Python process that the tests start: a connection to anything but this machine fails loudly."""

import ipaddress
import socket

_connect, _connect_ex = socket.socket.connect, socket.socket.connect_ex


def _require_loopback(sock, address):
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    try:
        local = ipaddress.ip_address(address[0]).is_loopback
    except ValueError:
        local = address[0] == "localhost"
    if not local:
        raise PermissionError(f"a test tried to connect to {address[0]}, which is not this machine")


def connect(self, address):
    _require_loopback(self, address)
    return _connect(self, address)


def connect_ex(self, address):
    _require_loopback(self, address)
    return _connect_ex(self, address)


socket.socket.connect, socket.socket.connect_ex = connect, connect_ex
