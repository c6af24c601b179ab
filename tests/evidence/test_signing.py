"""SSH signatures by the real ssh-keygen (M45, M53: who is trusted comes from outside)."""

from __future__ import annotations

import base64
import os
import stat
import subprocess
import time
from pathlib import Path

import pytest

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.signing import (
    DATA_VARIABLE,
    Purpose,
    SigningKey,
    check_signature,
    known_key,
    local_keys,
    new_key_file,
    sign,
    signing_key,
)
from runner.evidence.sshsig import NotCanonical, SshSignature, format_signature, parse_signature

DATA = b"sha256 list\n"


def make_key(folder: Path, *, name: str = "user", passphrase: str = "") -> Path:
    path = folder / name
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", name, "-f", str(path)], check=True, timeout=30
    )
    return path


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    return signing_key(Campaign(tmp_path_factory.mktemp("campaign")), {})


@pytest.fixture(scope="module")
def signature(key: SigningKey) -> bytes:
    return sign(DATA, key, Purpose.NOTE)


def test_the_local_key_is_called_a_test_key_and_is_private(key: SigningKey) -> None:
    assert key.local_test
    assert key.label.startswith("local test key SHA256:")
    assert key.kind == "ssh-ed25519"
    assert stat.S_IMODE(key.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.path.parent.stat().st_mode) == 0o700
    assert "local test key" in key.path.with_suffix(".pub").read_text(encoding="utf-8")


def test_m53_the_local_key_is_made_once_and_never_in_the_campaign_that_is_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever gets a copy of the folder must not get the key that signed it."""
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "user"))
    campaign = Campaign(tmp_path / "campaign")
    assert known_key(campaign, {}) is None
    made = signing_key(campaign, {})
    assert signing_key(campaign, {}) == known_key(campaign, {}) == made
    assert sorted(path.name for path in local_keys().iterdir()) == ["local-test-key", "local-test-key.pub"]
    assert local_keys().is_relative_to(tmp_path / "user") and not campaign.root.exists()


def test_m53_a_key_that_lies_in_a_campaign_is_never_taken_for_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's folder may bring a test key along: its maker has it too."""
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "user"))
    theirs = make_key(tmp_path, name="local-test-key")
    folder = tmp_path / "campaign" / "protocol" / "keys"
    folder.mkdir(parents=True)
    theirs.rename(folder / "local-test-key")
    public = (tmp_path / "local-test-key.pub").read_text(encoding="utf-8").split()[1]
    assert public not in signing_key(Campaign(tmp_path / "campaign"), {}).public_key


@pytest.mark.skipif(os.geteuid() != 0, reason="a place that nobody can write: /proc")
def test_a_place_that_cannot_hold_keys_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATA_VARIABLE, "/proc/nowhere")
    with pytest.raises(InputRefused, match="no place to be kept") as refused:
        signing_key(Campaign(tmp_path), {})
    assert "SIGNING_KEY" in str(refused.value.next_step)


def test_a_key_that_another_process_made_meanwhile_stays(tmp_path: Path) -> None:
    """Both kinds of local keys are placed by this: never over an existing one, and nothing is left beside it."""
    path = tmp_path / "keys" / "local"
    with new_key_file(path) as made:
        made.write_bytes(b"slower")
        made.with_name("local.pub").write_bytes(b"slower")
        path.write_bytes(b"faster")
    assert [(item.name, item.read_bytes()) for item in path.parent.iterdir()] == [("local", b"faster")]


def test_a_valid_signature_without_signers_names_nobody(signature: bytes, key: SigningKey) -> None:
    check = check_signature(DATA, signature, Purpose.NOTE)
    assert check.valid
    assert check.signer is None
    assert check.fingerprint == key.fingerprint
    assert "not checked" in check.reason


def test_signers_file_decides_who_is_trusted(tmp_path: Path, signature: bytes, key: SigningKey) -> None:
    signers = tmp_path / "signers"
    signers.write_text(f"buyer@example.org {key.public_key}\n", encoding="utf-8")
    assert check_signature(DATA, signature, Purpose.NOTE, signers).signer == "buyer@example.org"

    stranger = make_key(tmp_path).with_suffix(".pub").read_text(encoding="utf-8")
    signers.write_text(f"buyer@example.org {stranger}", encoding="utf-8")
    check = check_signature(DATA, signature, Purpose.NOTE, signers)
    assert not check.valid
    assert check.reason == "the signer is not in the signers file"


def test_m53_a_negated_pattern_names_no_signer(tmp_path: Path, signature: bytes, key: SigningKey) -> None:
    """As OpenSSH matches pattern lists: `!me` is who is not meant."""
    signers = tmp_path / "signers"
    signers.write_text(f"!me {key.public_key}\n", encoding="utf-8")
    check = check_signature(DATA, signature, Purpose.NOTE, signers)
    assert (check.valid, check.signer) == (False, None) and "who is not meant" in check.reason
    signers.write_text(f"!me,buyer@example.org {key.public_key}\n", encoding="utf-8")
    assert check_signature(DATA, signature, Purpose.NOTE, signers).signer == "buyer@example.org"
    signers.write_text(f"!me,* {key.public_key}\n", encoding="utf-8")
    assert check_signature(DATA, signature, Purpose.NOTE, signers).signer == "somebody who matches *"
    signers.write_text(f"!buyer@example.org,buyer@example.org {key.public_key}\n", encoding="utf-8")
    assert not check_signature(DATA, signature, Purpose.NOTE, signers).valid, "excluded wins over named"


@pytest.mark.parametrize("pattern", ["*", "*@example.org", "buye?@example.org", "!me,*"])
def test_m53_a_pattern_says_who_may_sign_and_is_never_shown_as_who_did(
    tmp_path: Path, signature: bytes, key: SigningKey, pattern: str
) -> None:
    signers = tmp_path / "signers"
    signers.write_text(f"{pattern} {key.public_key}\n", encoding="utf-8")
    signer = check_signature(DATA, signature, Purpose.NOTE, signers).signer
    assert signer == f"somebody who matches {pattern.removeprefix('!me,')}"


@pytest.mark.parametrize("character", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\r"])
@pytest.mark.parametrize("before", ["", "  "])
def test_m53_a_comment_of_the_signers_file_trusts_nobody(
    tmp_path: Path, signature: bytes, key: SigningKey, character: str, before: str
) -> None:
    """ssh-keygen ends a line at a line feed only; what it reads as a comment must not name a signer for us."""
    signers = tmp_path / "signers"
    text = f"someone@example.org {key.public_key[:30]}AAAA\n{before}# gone:{character}me@example.org {key.public_key}\n"
    signers.write_bytes(text.encode())
    found = check_signature(DATA, signature, Purpose.NOTE, signers)
    assert not found.valid and found.signer is None
    assert found.reason == "the signer is not in the signers file"


def test_signers_file_may_allow_only_other_purposes(tmp_path: Path, signature: bytes, key: SigningKey) -> None:
    signers = tmp_path / "signers"
    signers.write_text(f'me namespaces="{Purpose.LOCK}" {key.public_key}\n', encoding="utf-8")
    assert not check_signature(DATA, signature, Purpose.NOTE, signers).valid


def test_an_empty_or_missing_signers_file_is_refused(tmp_path: Path, signature: bytes) -> None:
    signers = tmp_path / "signers"
    with pytest.raises(InputRefused, match="cannot be read"):
        check_signature(DATA, signature, Purpose.NOTE, signers)
    signers.write_text("# nobody\n", encoding="utf-8")
    with pytest.raises(InputRefused, match="names nobody"):
        check_signature(DATA, signature, Purpose.NOTE, signers)


def test_a_signature_for_one_purpose_never_passes_for_another(signature: bytes) -> None:
    check = check_signature(DATA, signature, Purpose.LOCK)
    assert not check.valid
    assert "another purpose" in check.reason


def test_other_bytes_do_not_fit(signature: bytes) -> None:
    assert not check_signature(DATA + b"\n", signature, Purpose.NOTE).valid


def test_every_changed_byte_of_a_signature_file_is_found(signature: bytes) -> None:
    """Container in canonical form: most changes need no cryptography to be seen."""
    for position in range(len(signature)):
        changed = bytearray(signature)
        changed[position] ^= 0x01
        assert not check_signature(DATA, bytes(changed), Purpose.NOTE).valid, position
    for other in (signature[:-1], signature + b"\n", b"x" + signature, signature.replace(b"\n", b"\r\n")):
        assert not check_signature(DATA, other, Purpose.NOTE).valid


def test_the_reserved_field_that_ssh_keygen_ignores_is_checked(tmp_path: Path, signature: bytes) -> None:
    """ssh-keygen accepts a filled reserved field; the canonical form does not."""
    blob = base64.b64decode(b"".join(signature.splitlines()[1:-1]))
    namespace = Purpose.NOTE.value.encode()
    marker = namespace + b"\0\0\0\0"
    assert marker in blob
    text = base64.b64encode(blob.replace(marker, namespace + b"\0\0\0\x03abc"))
    lines = b"\n".join(text[start : start + 70] for start in range(0, len(text), 70))
    changed = b"-----BEGIN SSH SIGNATURE-----\n" + lines + b"\n-----END SSH SIGNATURE-----\n"
    file = tmp_path / "changed.sig"
    file.write_bytes(changed)
    foreign = subprocess.run(
        ["ssh-keygen", "-Y", "check-novalidate", "-n", Purpose.NOTE, "-s", str(file)],
        input=DATA,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert foreign.returncode == 0
    assert not check_signature(DATA, changed, Purpose.NOTE).valid


def test_format_is_the_inverse_of_parse(signature: bytes) -> None:
    parsed = parse_signature(signature)
    assert format_signature(parsed) == signature
    assert parsed.namespace == Purpose.NOTE
    with pytest.raises(NotCanonical):
        parse_signature(format_signature(SshSignature(b"", "n", "sha512", b"")))


def test_the_users_key_is_used_and_not_called_a_test_key(tmp_path: Path) -> None:
    path = make_key(tmp_path)
    key = signing_key(Campaign(tmp_path), {"SIGNING_KEY": str(path)})
    assert not key.local_test
    assert path.with_suffix(".pub").read_text(encoding="utf-8").startswith(key.public_key)
    assert check_signature(DATA, sign(DATA, key, Purpose.LOCK), Purpose.LOCK).fingerprint == key.fingerprint
    assert not (tmp_path / "protocol").exists()


def test_a_key_that_cannot_sign_is_refused_with_its_reason(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)

    def refused(path: Path) -> InputRefused:
        with pytest.raises(InputRefused) as caught:
            signing_key(campaign, {"SIGNING_KEY": str(path)})
        assert caught.value.file == str(path)
        return caught.value

    assert "does not exist" in refused(tmp_path / "missing").what
    assert "not a file" in refused(tmp_path).what

    garbage = tmp_path / "garbage"
    garbage.write_text("not a key\n", encoding="utf-8")
    garbage.chmod(0o600)
    assert "not an SSH private key" in refused(garbage).what

    locked = refused(make_key(tmp_path, name="locked", passphrase="secret"))
    assert "needs a passphrase" in locked.what
    assert "ssh-add" in str(locked.next_step)

    open_key = make_key(tmp_path, name="open")
    open_key.chmod(0o644)
    # root reads everything, ssh-keygen refuses all the same
    assert refused(open_key).next_step == f"chmod 600 {open_key}"

    public_only = make_key(tmp_path, name="agent").with_suffix(".pub")
    public_only.with_suffix("").unlink()
    assert "agent" in refused(public_only).what
    assert "ssh-add" not in str(refused(public_only).next_step)  # of a public key there is nothing to load

    of_locked = refused((tmp_path / "locked").with_suffix(".pub"))
    assert f"ssh-add {tmp_path / 'locked'}`" in str(of_locked.next_step), "the private file, never the .pub"
    assert f"SIGNING_KEY={tmp_path / 'locked'}," in str(of_locked.next_step)
    assert not (tmp_path / "protocol").exists()


def test_without_ssh_keygen_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert os.environ["PATH"] == str(tmp_path)
    with pytest.raises(InputRefused) as caught:
        signing_key(Campaign(tmp_path), {})
    assert "openssh-client" in str(caught.value.next_step)
    assert not any((tmp_path / "protocol" / "keys").glob("local*"))


def test_an_agent_signs_with_a_key_that_has_a_passphrase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both the locked private key and its public half name a key that the agent holds."""
    locked = make_key(tmp_path, name="locked", passphrase="secret")
    answer = tmp_path / "answer"
    answer.write_text("#!/bin/sh\necho secret\n", encoding="utf-8")
    answer.chmod(0o700)
    socket = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        monkeypatch.setenv("SSH_ASKPASS", str(answer))
        monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
        for _ in range(100):
            if socket.exists():
                break
            time.sleep(0.05)
        subprocess.run(["ssh-add", "-q", str(locked)], check=True, timeout=30, stdin=subprocess.DEVNULL)
        for path in (locked, locked.with_suffix(".pub")):
            key = signing_key(Campaign(tmp_path), {"SIGNING_KEY": str(path)})
            assert check_signature(DATA, sign(DATA, key, Purpose.NOTE), Purpose.NOTE).valid
    finally:
        agent.terminate()
        agent.wait(timeout=10)
