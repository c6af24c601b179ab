"""`runner archive`: rental record, note and evidence in one signed bag (M45, M46)."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from runner.decide.model import Balance, BalanceRow, Decision
from runner.errors import InputRefused, NotAccepted, show_value
from runner.evidence.campaign import Campaign
from runner.evidence.checks import SIGNED_LIST, SIGNED_LIST_SIGNATURE, THIS_CODE, read_signer
from runner.evidence.rental import Rental
from runner.evidence.signing import Purpose, SigningKey, sign, signing_key
from runner.evidence.sshsig import NotCanonical, parse_signature
from runner.flows import integrity
from runner.flows.recompute import recompute_verdicts
from runner.flows.standing import key_warnings, standing_language
from runner.flows.verification import Step
from runner.judge.again import refuse_other_verdicts
from runner.note.build import templates_of
from runner.note.howto import how_to_check
from runner.note.i18n import SOURCE_LANGUAGE, load_catalogue
from runner.pricing.rental import Expected, RentalMatch, match_rental, read_rental
from runner.protocol.lockfile import earlier_locks
from runner.protocol.modelfiles import frozen_model, model_changes
from runner.protocol.read import read_plan
from runner.protocol.schema import Lock
from runner.seal.bag import LEFT_OUT, RENTAL, SIGNATURE, SIGNED, build_bag, read_bag
from runner.seal.container import Source, write_container
from runner.seal.scope import frozen_model_files
from runner.seal.sums import holds_texts, model_folder
from runner.units import parse_decimal, parse_utc

_MODEL_MOST_BYTES = 64_000_000


@dataclass(frozen=True)
class Archived:
    """The archive, how the rental matched, and what was left out of it (with the reason).

    `warnings`: what somebody who counts on the archive should know, such as a model that is nowhere in it.
    """

    path: Path
    files: int
    bytes: int
    key: str
    match: RentalMatch
    left_out: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def make_archive(
    campaign: Campaign, rental_path: Path, environ: Mapping[str, str] = os.environ, *, texts: bool = True
) -> Archived:
    """Check note and rental, then write `archive/<note id>-<language>.zip` as a whole or not at all.

    An archive of that name with other content (rental record, keys, note) stays; the new one gets a number.

    Without `texts` the archive may be shown to others: corpora and model stay out and are named (M53).
    A model in the folder that is not the frozen one is not accepted (MO-19), enclosed or not.
    """
    rental = read_rental(rental_path)
    listed = integrity.check_list(campaign, None)
    if listed.signed is None or listed.step.status == "failed":
        raise _not_signed(campaign, listed.step)
    files = integrity.check_files(campaign, listed.signed)
    if files.status == "failed":
        raise _not_signed(campaign, files)
    judged = recompute_verdicts(campaign)  # as `verify` does: what another version of ours worded otherwise passes
    if judged.status == "failed":
        refuse_other_verdicts(campaign)
        raise _not_signed(campaign, judged)
    match = match_decision(campaign, rental)
    match.refuse(rental_path)
    payload: dict[str, Source] = {name: campaign.root / name for name in listed.signed.files}
    payload |= {name: campaign.root / name for name in (SIGNED_LIST, SIGNED_LIST_SIGNATURE)}
    payload[RENTAL] = rental_path.read_bytes()
    lock = Lock.load(campaign.lock)
    _refuse_other_model(campaign, lock)
    warnings: tuple[str, ...] = ()
    if texts:
        model, left_out, warnings = _model(campaign, lock)
        payload |= model
    else:
        locks = (lock, *earlier_locks(campaign))
        withheld = sorted(name for name in payload if holds_texts(locks, name))
        payload = {name: source for name, source in payload.items() if name not in withheld}
        model_files = frozen_model_files(campaign)
        payload[LEFT_OUT] = "".join(f"{name}\n" for name in sorted({*withheld, *model_files})).encode("utf-8")
        left_out = (*withheld, f"the model ({len(model_files)} files)" if model_files else "the model")
    key = signing_key(campaign, environ)
    info = {
        "External-Identifier": listed.signed.note_id,
        "Purpose": "archive of a decision note with its evidence and rental record",
        "Bag-Software-Agent": THIS_CODE,
        "Signed-With": key.label,
        "Rental-Order": show_value(rental.order),
        "Model": "enclosed" if texts and not left_out else f"not enclosed: {left_out[-1]}",
    }
    name = "-".join(
        [listed.signed.note_id, standing_language(campaign) or SOURCE_LANGUAGE, *([] if texts else ["without-texts"])]
    )
    text = _how_to_check(campaign, key, complete=LEFT_OUT not in payload)
    bag = build_bag(name, payload, info, lambda data: sign(data, key, Purpose.BAG), text)
    target, earlier = _free_name(campaign, name, key, bag[f"{name}/{SIGNED}"])
    bag = {target.stem + inside.removeprefix(name): source for inside, source in bag.items()}
    _write(target, bag)
    if earlier is not None:
        warnings += (f"{campaign.relative(earlier)} holds something else (note, rental record or key) and stays",)
    signer = read_signer(campaign)
    if signer is not None:
        warnings += key_warnings(campaign, signer, key)
    return Archived(target, len(payload), target.stat().st_size, key.label, match, left_out, warnings)


def _how_to_check(campaign: Campaign, key: SigningKey, *, complete: bool) -> str:
    """For readers of the note's language, and in English below for everybody else."""
    languages = dict.fromkeys((standing_language(campaign) or SOURCE_LANGUAGE, SOURCE_LANGUAGE))
    texts = [
        how_to_check(
            load_catalogue(templates_of(campaign), language),
            signature=SIGNATURE,
            signed=SIGNED,
            complete=complete,
            local_test=key.local_test,
            fingerprint=key.fingerprint,
        )
        for language in languages
    ]
    return "\n\n".join(texts)


def _free_name(campaign: Campaign, name: str, key: SigningKey, manifest: Source) -> tuple[Path, Path | None]:
    """Where to write, and the last archive of that name with other content or another key; none is replaced by another.

    The tag manifest covers every byte of a bag but its signature, and does not depend on the bag's own name.
    """
    earlier = None
    for number in itertools.count(1):
        path = campaign.archive / (f"{name}.zip" if number == 1 else f"{name}-{number}.zip")
        if not path.exists() or _holds(path, key, manifest):
            return path, earlier
        earlier = path
    raise AssertionError("unreachable")


def _holds(path: Path, key: SigningKey, manifest: Source) -> bool:
    try:
        bag = read_bag(path)
        return bag.signed == manifest and parse_signature(bag.signature).fingerprint == key.fingerprint
    except (NotAccepted, InputRefused, NotCanonical):  # damaged: it is evidence of something, and stays
        return False


def match_decision(campaign: Campaign, rental: Rental) -> RentalMatch:
    """The rental record against the chosen configuration; without a choice, against the one of its GPU."""
    decision, balance = Decision.load(campaign.decision), Balance.load(campaign.balance)
    rows = [row for row in balance.rows if row.measured]
    wanted = [row for row in rows if row.configuration_id == decision.chosen] if decision.chosen else rows
    row = next((row for row in wanted if row.gpu == rental.gpu), wanted[0] if wanted else None)
    if row is None:
        raise NotAccepted(
            "nothing was measured, so there is no configuration that a rental record could belong to",
            file=campaign.decision,
            next_step="runner measure first; then runner validate, runner decide and runner report",
        )
    plan = read_plan(campaign.plan) if campaign.plan.is_file() else None
    expected = replace(_expected(row), decided=decision.chosen is not None)
    if plan is not None:
        expected = replace(expected, provider=plan.provider, order=plan.order)
    return match_rental(rental, expected)


def _expected(row: BalanceRow) -> Expected:
    """What the chosen offer says; where nothing is rented, or by the hour, there is less to compare."""
    package, window = row.package, row.window
    if package is None:
        return Expected(gpu=row.gpu, lots=None, days=None, amount=None, currency=None, own_machine=row.own_machine)
    return Expected(
        gpu=row.gpu,
        lots=package.lots,
        days=package.days,
        amount=parse_decimal(package.total, name="total"),
        currency=package.currency,
        window=None if window is None else (parse_utc(window.starts_at_utc), parse_utc(window.ends_at_utc)),
        own_machine=row.own_machine,
        periods=package.periods,
    )


def _model(campaign: Campaign, lock: Lock) -> tuple[dict[str, Source], tuple[str, ...], tuple[str, ...]]:
    """The model's files when they are small, else why not, and a warning where no hub keeps the model either."""
    folder = model_folder(campaign)
    if folder is None:
        reason = "the model, which is not in the campaign folder: the lock holds its fingerprints"
        kept = lock.judgement.model_revision is not None
        return (
            {},
            (reason,),
            () if kept else ("the measured model itself is in no file of this archive: keep it yourself",),
        )
    found = {campaign.relative(path): path for path in sorted((campaign.root / folder).rglob("*")) if path.is_file()}
    size = sum(path.stat().st_size for path in found.values())
    if size > _MODEL_MOST_BYTES:
        return {}, (f"the model ({size} bytes): the lock holds the fingerprints of its files",), ()
    return dict(found), (), ()


def _refuse_other_model(campaign: Campaign, lock: Lock) -> None:
    """A cut off or exchanged model must not be sealed as the measured one; `verify` would not accept it either."""
    if model_folder(campaign) is None:
        return
    try:
        details = tuple(str(change) for change in model_changes(campaign, lock))
    except InputRefused as error:  # no config.json any more, pickles that came in
        details = (error.what, *error.details)
    if details:
        raise NotAccepted(
            "the model in the campaign folder is not the frozen one, so it is not archived",
            file=campaign.protocol_dir / frozen_model(campaign, lock).source,
            details=details,
            next_step="put the frozen files back, or move the folder away (the archive then says that it has no model)",
        )


def _not_signed(campaign: Campaign, step: Step) -> InputRefused:
    return InputRefused(
        f"the note is not whole, so it is not archived: {step.finding}",
        file=campaign.note,
        details=step.details,
        next_step="make report (a changed record needs make validate before)",
    )


def _write(target: Path, bag: Mapping[str, Source]) -> None:
    """Into a temporary file beside the target, then renamed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            write_container(stream, bag)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o644)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
