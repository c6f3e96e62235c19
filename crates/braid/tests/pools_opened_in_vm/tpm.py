"""/dev/tpmrm0 of a swtpm, for a kernel that has no driver for a TPM (User Mode Linux).

A character device in user space (CUSE; the messages are those of linux/fuse.h). As with the
kernel's resource manager no process finds sessions and keys of others: who comes while another
has it open waits, and what one leaves behind is flushed.
    tpm.py PORT     swtpm's, of `--server type=tcp`
"""

import errno
import os
import socket
import struct
import sys
from collections import deque

CUSE_INIT, OPEN, READ, WRITE, RELEASE, INTERRUPT = 4096, 14, 15, 16, 18, 36
HEADER = struct.Struct("<IIQQIIII")
ANSWER = struct.Struct("<IiQ")
LARGEST = 4096

# TPM 2.0 part 2: commands, and which handles.
NO_SESSIONS, GET_CAPABILITY, FLUSH_CONTEXT = 0x8001, 0x17A, 0x165
CAP_HANDLES, LOADED_SESSIONS, TRANSIENT = 1, 0x02000000, 0x80000000


class Tpm:
    def __init__(self, port):
        self.stream = socket.create_connection(("127.0.0.1", port))

    def ask(self, command):
        self.stream.sendall(command)
        head = self.take(10)
        return head + self.take(struct.unpack(">HII", head)[1] - len(head))

    def take(self, count):
        taken = b""
        while len(taken) < count:
            more = self.stream.recv(count - len(taken))
            if not more:
                sys.exit("swtpm has gone")
            taken += more
        return taken

    def flush(self):
        for kind in LOADED_SESSIONS, TRANSIENT:
            answer = self.command(GET_CAPABILITY, struct.pack(">III", CAP_HANDLES, kind, 64))
            count = struct.unpack_from(">I", answer, 15)[0]
            for handle in struct.unpack_from(f">{count}I", answer, 19):
                self.command(FLUSH_CONTEXT, struct.pack(">I", handle))

    def command(self, code, rest):
        return self.ask(struct.pack(">HII", NO_SESSIONS, 10 + len(rest), code) + rest)


class Device:
    def __init__(self, tpm):
        self.tpm = tpm
        self.cuse = os.open("/dev/cuse", os.O_RDWR)
        self.owner, self.opened = None, 0
        self.waiting = deque()
        self.answer = b""

    def serve(self):
        while True:
            message = os.read(self.cuse, LARGEST + 65536)
            _, code, unique, _, _, _, process, _ = HEADER.unpack_from(message)
            self.handle(code, unique, process, message[HEADER.size :])

    def handle(self, code, unique, process, body):
        if code == CUSE_INIT:
            major, minor = struct.unpack_from("<II", body)
            sizes = struct.pack("<8I40x", major, minor, 0, 0, LARGEST, LARGEST, 0, 0)
            self.reply(unique, sizes + b"DEVNAME=tpmrm0\0")
        elif code == OPEN:
            self.waiting.append((process, unique))
            self.let_in()
        elif code == WRITE:
            size = struct.unpack_from("<QQI", body)[2]
            self.answer = self.tpm.ask(body[40 : 40 + size])
            self.reply(unique, struct.pack("<II", size, 0))
        elif code == READ:
            size = struct.unpack_from("<QQI", body)[2]
            self.reply(unique, self.answer[:size])
            self.answer = self.answer[size:]
        elif code == RELEASE:
            self.opened -= 1
            if self.opened == 0:
                self.tpm.flush()
            self.reply(unique)
            self.let_in()
        elif code != INTERRUPT:
            self.reply(unique, error=errno.ENOSYS)

    def let_in(self):
        if self.opened == 0 and self.waiting:
            self.owner = self.waiting[0][0]
        for process, unique in [who for who in self.waiting if who[0] == self.owner]:
            self.waiting.remove((process, unique))
            self.opened += 1
            self.reply(unique, struct.pack("<QII", 0, 0, 0))

    def reply(self, unique, body=b"", error=0):
        os.write(self.cuse, ANSWER.pack(ANSWER.size + len(body), -error, unique) + body)


Device(Tpm(int(sys.argv[1]))).serve()
