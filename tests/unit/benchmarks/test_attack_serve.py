import socket
import threading

from benchmarks import attack_serve


def answer(content):
    """Return the address of a server that answers one request with some bytes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        with listener, listener.accept()[0] as connection:
            connection.recv(1000)
            connection.sendall(content)

    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()


def test_the_status_of_a_response_is_read():
    address = answer(b"HTTP/1.1 413 Too Large\r\n\r\n")
    assert attack_serve.send(address, attack_serve.head("GET /")) == [413]
    assert attack_serve.send(answer(b""), b"GET / HTTP/1.1\r\n\r\n") == [attack_serve.CLOSED]


def test_there_are_thirty_kinds_of_attacks():
    assert len(attack_serve.attacks(b"photo", connections=1, seconds=0)) >= 30
