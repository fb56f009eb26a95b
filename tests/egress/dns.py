"""A DNS server that gives every kind of answer, good and bad."""

import errno
import ipaddress
import socket
import struct
import threading
import time

A, CNAME, AAAA = 1, 5, 28
NOERROR, SERVFAIL, NXDOMAIN, REFUSED = 0, 2, 3, 5


def encode_name(name):
    return b"".join(bytes([len(p)]) + p.encode() for p in name.strip(".").split(".") if p) + b"\0"


def record(owner, kind, data, ttl):
    return encode_name(owner) + struct.pack(">HHIH", kind, 1, ttl, len(data)) + data


class Zone:
    """What is answered for one name.

    a, aaaa: lists of addresses, or an rcode for that family. cname: chain of names in front of the addresses. owner: the
    addresses stand under this name instead. delay: seconds, or {A: …, AAAA: …}. drop: families never answered. tc: UDP
    answers are cut. each: list of lists for a, one after the other (rebinding). raw: function(query, question, kind) -> answer
    bytes. before: function(server, query, question, kind, peer) that sends what it likes ahead of a UDP answer.
    """

    def __init__(self, a=(), aaaa=(), cname=(), owner=None, ttl=0, delay=0, drop=(), tc=False, each=None, raw=None,
                 before=None):
        self.families = {A: a, AAAA: aaaa}
        self.cname, self.owner, self.ttl, self.delay = cname, owner, ttl, delay
        self.drop, self.tc, self.each, self.raw = drop, tc, each, raw
        self.before = before
        self.asked = 0


def both_transports():
    """A UDP socket and a listening TCP one on one port: a port that is free for the one may be taken for the other."""
    while True:
        udp, tcp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket()
        udp.bind(("127.0.0.1", 0))
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tcp.bind(udp.getsockname())
            tcp.listen(64)
            return udp, tcp
        except OSError as e:
            udp.close()
            tcp.close()
            if e.errno != errno.EADDRINUSE:
                raise


class Server:
    def __init__(self):
        self.zones = {}
        self.asked = []  # (name, type, transport)
        self.ports = set()  # that questions came from
        self.lock = threading.Lock()
        self.udp, self.tcp = both_transports()
        self.port = self.udp.getsockname()[1]
        threading.Thread(target=self.serve_udp, daemon=True).start()
        threading.Thread(target=self.serve_tcp, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def questions(self, name=None):
        with self.lock:
            return [q for q in self.asked if name is None or q[0] == name]

    def forget(self):
        with self.lock:
            self.asked.clear()

    def serve_udp(self):
        while True:
            query, peer = self.udp.recvfrom(4096)
            self.ports.add(peer[1])
            threading.Thread(target=self.answer_udp, args=(query, peer), daemon=True).start()

    def answer_udp(self, query, peer):
        answer = self.answer(query, "udp", peer)
        if answer is not None:
            self.udp.sendto(answer, peer)

    def serve_tcp(self):
        while True:
            sock, _ = self.tcp.accept()
            threading.Thread(target=self.one_tcp, args=(sock,), daemon=True).start()

    def one_tcp(self, sock):
        with sock:
            while size := sock.recv(2, socket.MSG_WAITALL):
                query = sock.recv(struct.unpack(">H", size)[0], socket.MSG_WAITALL)
                answer = self.answer(query, "tcp")
                if answer is None:
                    return
                sock.sendall(struct.pack(">H", len(answer)) + answer)

    def answer(self, query, transport, peer=None):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode("latin-1").lower())
            at += 1 + query[at]
        name = ".".join(labels)
        kind = struct.unpack(">H", query[at + 1:at + 3])[0]
        question = query[12:at + 5]
        with self.lock:
            self.asked.append((name, kind, transport))
            zone = self.zones.get(name)
            wildcard = self.zones.get("*." + name.partition(".")[2])
            zone = zone or wildcard
            turn = 0
            if zone is not None and kind == A:
                turn = zone.asked
                zone.asked += 1
        if zone is None:
            return self.message(query, question, NXDOMAIN, [])
        if zone.before is not None and transport == "udp":
            zone.before(self, query, question, kind, peer)
        if kind in zone.drop:
            return None
        delay = zone.delay.get(kind, 0) if isinstance(zone.delay, dict) else zone.delay
        if delay:
            time.sleep(delay)
        if zone.raw is not None:
            return zone.raw(query, question, kind)
        addresses = zone.families.get(kind, ())
        if zone.each is not None and kind == A:
            addresses = zone.each[min(turn, len(zone.each) - 1)]
        if isinstance(addresses, int):
            return self.message(query, question, addresses, [])
        records, owner = [], name
        for target in zone.cname:
            records.append(record(owner, CNAME, encode_name(target), zone.ttl))
            owner = target
        for address in addresses:
            records.append(record(zone.owner or owner, kind, ipaddress.ip_address(address).packed, zone.ttl))
        if zone.tc and transport == "udp":
            return self.message(query, question, NOERROR, records[:1], flags=0x8380)
        return self.message(query, question, NOERROR, records)

    @staticmethod
    def message(query, question, rcode, records, flags=0x8180):
        return query[:2] + struct.pack(">HHHHH", flags | rcode, 1, len(records), 0, 0) + question + b"".join(records)
