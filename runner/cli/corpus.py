"""`runner corpus`: a corpus from the user's own data. `runner demo-model`: the embedded one, made again."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runner.cli.output import Output, Session, runner_command, write_line
from runner.errors import InputRefused, show_value
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import sha256_file

if TYPE_CHECKING:
    from runner.corpus.build import Built
    from runner.corpus.source import Source
    from runner.corpus.strata import Band, TokenCounter

_PATH = click.Path(path_type=Path)
_BAND = re.compile(r"([^:]+):(\d{1,9})(?:-(\d{1,9})|\+)(?::(\d{1,9}))?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
DEFAULT_BANDS = ("short:1-32:600", "medium:33-128:300", "long:129+:100")


@runner_command("corpus", short_help="Build a corpus from your own data: sampled by length, with a data sheet.")
@click.option("--from", "source", required=True, type=_PATH, help="your data: a file or a folder")
@click.option("--name", help="id of the corpus (default: from the file's name)")
@click.option("--out", type=_PATH, help="folder to write (default: protocol/corpus/NAME)")
@click.option("--replace", is_flag=True, help="write over a corpus that was built before")
@click.option(
    "--layout",
    type=click.Choice(["table", "folders", "lines"]),
    default="table",
    help="table; one folder per label; or lines 'LABEL text'",
)
@click.option("--kind", type=click.Choice(["csv", "jsonl", "parquet"]), help="if the file's name does not tell")
@click.option("--id-column", default="id", help="default: id")
@click.option("--make-ids", is_flag=True, help="the data have no ids: number the documents")
@click.option("--text-column", "text_columns", multiple=True, help="default: text; several are joined by a blank")
@click.option("--label-column", default="label", help="default: label")
@click.option("--group-column", "group_columns", multiple=True, help="column to keep for subgroups")
@click.option("--header", help="column names, by commas, for a file without a header line")
@click.option("--delimiter", help="such as ';' or '\\t'")
@click.option("--no-quotes", is_flag=True, help="quotation marks are ordinary characters")
@click.option("--encoding", default="utf-8", help="default: utf-8")
@click.option("--label-names", type=_PATH, help="file with one name per line, line 1 for class 1")
@click.option("--label-names-from", type=int, default=1, help="number of the class on line 1 (default: 1)")
@click.option("--label-names-in-file", is_flag=True, help="a Parquet file of the datasets library names its classes")
@click.option("--label-name", "label_name", multiple=True, metavar="LABEL=NAME", help="name of one label")
@click.option("--label-until", help="only the label's part before this mark counts, such as ':'")
@click.option("--skip-label", "skip_labels", multiple=True, help="leave out documents with this label")
@click.option("--skip-empty", is_flag=True, help="leave out documents without text (they are counted)")
@click.option("--allow-empty-texts", is_flag=True, help="keep documents without text")
@click.option("--allow-case-twins", is_flag=True, help="ids may differ by letter case only")
@click.option("--all", "everything", is_flag=True, help="take every document instead of sampling by length")
@click.option(
    "--band",
    "bands",
    multiple=True,
    metavar="NAME:FROM-TO:COUNT",
    help=f"length band in tokens (default: {' '.join(DEFAULT_BANDS)})",
)
@click.option("--tokenizer", help="folder, tokenizer.json or 'words' (default: the protocol's model)")
@click.option("--count-special-tokens", is_flag=True, help="lengths include the tokens that the tokenizer adds")
@click.option("--tuning", default=0, type=click.IntRange(min=0), help="size of a tuning split from the same data")
@click.option("--tuning-from", type=_PATH, help="or the tuning split as it is, in the same layout")
@click.option("--seed", default=0, type=click.IntRange(min=0), help="default: 0")
@click.option("--licence", default="", help="licence of the texts")
@click.option("--permission", default="", help="why you may use them for this")
def corpus(session: Session, **options: Any) -> Output:
    """Build a corpus from your own data: sampled by length, with a data sheet."""
    from runner.corpus.build import Order, build
    from runner.corpus.columns import NAME_THE_COLUMNS
    from runner.corpus.scan import Rules

    campaign = Campaign(session.root)
    name = options["name"] or _name_from(options["source"])
    if not _NAME.fullmatch(name):
        raise InputRefused(
            "not a name for a corpus: use letters, digits, '.', '_' or '-'",
            column="--name",
            value=name,
            next_step="--name messages (for example)",
        )
    out = options["out"] or campaign.protocol_dir / "corpus" / name
    if options["replace"] and campaign.lock.exists() and out.resolve().is_relative_to(campaign.protocol_dir.resolve()):
        raise InputRefused(
            "the protocol is frozen: a corpus below it is not replaced",
            file=out,
            next_step="build under another --name and start a new protocol revision",
        )
    if options["tuning"] and options["tuning_from"]:
        raise InputRefused(
            "--tuning and --tuning-from exclude each other",
            next_step="keep one: --tuning NUMBER draws from the same source, --tuning-from FILE takes another one",
        )
    source = _source(options, options["source"], "")
    other = None
    if options["tuning_from"] is not None:
        first, second = _prefixes(options["source"], options["tuning_from"])
        source = _source(options, options["source"], first)
        other = _source(options, options["tuning_from"], second)
    order = Order(
        name=name,
        out=out,
        source=source,
        counter=_counter(options, campaign),
        bands=_bands(options["bands"]),
        seed=options["seed"],
        everything=options["everything"],
        tuning_wanted=options["tuning"],
        tuning_source=other,
        rules=Rules(options["allow_case_twins"], options["allow_empty_texts"], options["skip_empty"]),
        licence=options["licence"],
        permission=options["permission"],
        replace=options["replace"],
        progress=_progress,
    )
    try:
        built = build(order)
    except InputRefused as error:
        if error.next_step == NAME_THE_COLUMNS:
            error.next_step = _columns_command(options)
        raise
    if sys.stderr.isatty():
        write_line("", error=True)
    return Output(_report(built, campaign, source), built.facts | {"folder": str(built.folder)})


@runner_command("demo-model", short_help="Make the embedded synthetic corpus and model again (about three minutes).")
def demo_model(session: Session) -> Output:
    """Make the embedded synthetic corpus and model again (about three minutes)."""
    from runner.demo.build import build_demo

    campaign = Campaign(session.root)
    files = build_demo(campaign, lambda text: write_line(text, error=True))
    sums = {campaign.relative(file): sha256_file(file) for file in files}
    return Output([f"{sha256}  {name}" for name, sha256 in sums.items()], {"files": sums})


def _columns_command(options: dict[str, Any]) -> str:
    """The command with every option that names a column, since the protocol's own names say nothing here."""
    make = "" if len(options["text_columns"]) > 1 else "; with make: ID_COLUMN=NAME TEXT_COLUMN=NAME LABEL_COLUMN=NAME"
    return (
        f"runner corpus --from {shlex.quote(str(options['source']))} --id-column NAME --text-column NAME "
        f"--label-column NAME, with the names above{make}"
    )


def _progress(documents: int) -> None:
    """One line that grows, on a terminal only."""
    if sys.stderr.isatty():
        click.echo(f"\r{documents} documents read", nl=False, err=True)


def _source(options: dict[str, Any], path: Path, prefix: str) -> Source:
    from runner.corpus.source import Source
    from runner.corpus.table import CsvStyle

    if not path.exists():
        raise InputRefused("does not exist", file=path, next_step="check the path")
    header = options["header"]
    style = CsvStyle(
        kind=options["kind"],
        delimiter=_delimiter(options["delimiter"]),
        quoted=not options["no_quotes"],
        header=tuple(header.split(",")) if header else None,
        encoding=_encoding(options["encoding"]),
    )
    return Source(
        path=path,
        layout=options["layout"],
        id_column=None if options["make_ids"] else options["id_column"],
        text_columns=options["text_columns"] or ("text",),
        label_column=options["label_column"],
        group_columns=options["group_columns"],
        style=style,
        label_names=_label_names(options, path),
        label_until=options["label_until"],
        skip_labels=frozenset(options["skip_labels"]),
        id_prefix=prefix,
    )


def _prefixes(final: Path, tuning: Path) -> tuple[str, str]:
    """What ids made here begin with: the names of the two sources, with their folders where they are alike."""
    names = tuple(path.name if path.is_dir() else path.stem for path in (final, tuning))
    if names[0] != names[1]:
        return names[0], names[1]
    return f"{final.resolve().parent.name}/{names[0]}", f"{tuning.resolve().parent.name}/{names[1]}"


def _name_from(path: Path) -> str:
    stem = path.resolve().name.split(".")[0]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._") or "corpus"


def _delimiter(text: str | None) -> str | None:
    if text is None:
        return None
    mark = {"\\t": "\t", "tab": "\t"}.get(text, text)
    if len(mark) != 1 or mark in '"\r\n':
        raise InputRefused(
            "a delimiter is one character",
            column="--delimiter",
            value=text,
            next_step="write one character, such as --delimiter ';' (or tab)",
        )
    return mark


def _encoding(name: str) -> str:
    try:
        "a".encode(name)
    except (LookupError, UnicodeError):
        raise InputRefused(
            "not a text encoding",
            column="--encoding",
            value=name,
            next_step="name one that Python knows, such as --encoding latin-1 or utf-8",
        ) from None
    return name.lower()


def _label_names(options: dict[str, Any], path: Path) -> dict[str, str] | None:
    from runner.corpus.source import read_label_names
    from runner.corpus.table import table_files

    file = options["label_names"]
    names = read_label_names(file, options["label_names_from"]) if file else {}
    if options["label_names_in_file"]:
        from runner.corpus.parquet import class_names

        names = class_names(table_files(path, "parquet")[0], options["label_column"]) | names
    for entry in options["label_name"]:
        label, mark, name = entry.partition("=")
        if not mark or not name.strip():
            raise InputRefused(
                "write LABEL=NAME",
                column="--label-name",
                value=entry,
                next_step="--label-name 1=complaint (for example), once for each label",
            )
        names[label] = name
    return names or None


def _bands(texts: tuple[str, ...]) -> tuple[Band, ...]:
    from runner.corpus.strata import Band

    bands = []
    for text in texts or DEFAULT_BANDS:
        found = _BAND.fullmatch(text)
        if found is None:
            raise InputRefused(
                "write a band as NAME:FROM-TO:COUNT or NAME:FROM+:COUNT",
                column="--band",
                value=text,
                next_step="--band short:1-40:600 --band long:41+:400 (for example)",
            )
        name, least, most, count = found.groups()
        bands.append(Band(name, int(least), None if most is None else int(most), int(count or 0)))
    return tuple(bands)


def _counter(options: dict[str, Any], campaign: Campaign) -> TokenCounter:
    from runner.corpus.strata import TokenizerFile, WhitespaceWords

    special = options["count_special_tokens"]
    if options["tokenizer"] == "words":
        return WhitespaceWords(special_tokens=special)
    path = Path(options["tokenizer"]) if options["tokenizer"] else _tokenizer_of_the_model(campaign)
    return TokenizerFile(path, special_tokens=special)


def _tokenizer_of_the_model(campaign: Campaign) -> Path:
    """Folder of the protocol's model; lengths count as that model counts them."""
    from runner.protocol.read import read_protocol

    if not campaign.protocol.exists():
        return campaign.protocol_dir / "model"
    source = read_protocol(campaign.protocol).model.source
    folder = campaign.protocol_dir / source
    if not folder.exists():
        raise InputRefused(
            "the protocol's model is no local folder, so its tokenizer is not at hand",
            file=campaign.protocol,
            column="model.source",
            value=source,
            next_step="name a tokenizer.json with --tokenizer, or 'words'",
        )
    return folder


def _report(built: Built, campaign: Campaign, source: Source) -> list[str]:
    """For people: what came out, what was left out and why, and the next command."""
    facts = built.facts
    lines = [*_read_and_left_out(facts)]
    for name, split in facts["splits"].items():
        strata = ", ".join(f"{found['documents']} {stratum}" for stratum, found in split["strata"].items())
        lines.append(f"{name}: {split['documents']} documents ({strata}), records {split['records_sha256'][:16]}")
    lines += _repeated(facts, built.folder)
    lines += [f"note: {note}" for note in facts["notes"]]
    lines.append(f"written: {built.folder}/ (data sheet: README.md)")
    if not facts["licence"] or not facts["permission"]:
        lines.append("not stated: licence or permission (--licence, --permission, or in the protocol)")
    if built.folder.resolve().is_relative_to(campaign.protocol_dir.resolve()) and campaign.protocol.is_file():
        if campaign.lock.exists():
            final = built.folder.resolve().relative_to(campaign.protocol_dir.resolve()).as_posix()
            return [*lines, f"next: runner protocol revise --corpus {final}/final.csv (the protocol is frozen)"]
        where = built.folder.resolve().relative_to(campaign.protocol_dir.resolve()).as_posix()
        name = where.removeprefix("corpus/")
        return [*lines, f"next: runner protocol use-corpus {name} (puts it into quality-protocol.toml and plan.toml)"]
    return [*lines, *_protocol_lines(built, campaign, source)]


def _read_and_left_out(facts: dict[str, Any]) -> list[str]:
    """Every document of the source is either in a split or counted here with its reason."""
    source, final = facts["source"], facts["splits"]["final"]
    tuning = facts["splits"].get("tuning", {"strata": {}}) if "tuning_source" not in facts else {"strata": {}}
    lines = [
        f"read: {source['documents'] + source['left_out_empty'] + sum(source['left_out_labels'].values())} "
        f"documents of {source['file']}"
    ]
    if not facts["everything"]:
        rest = {}
        for band in facts["bands"]:
            name = band["name"]
            taken = sum(split["strata"].get(name, {"documents": 0})["documents"] for split in (final, tuning))
            rest[name] = source["available"][name] - taken
        if any(rest.values()):
            shown = ", ".join(f"{count} {name}" for name, count in rest.items() if count)
            lines.append(f"left out: {sum(rest.values())} more than asked for ({shown})")
    if source["outside_all_bands"] and not facts["everything"]:
        lines.append(f"left out: {source['outside_all_bands']} with a length in no band")
    if source["left_out_empty"]:
        lines.append(f"left out: {source['left_out_empty']} without text, as asked for")
    lines += [
        f"left out: {count} with the label {show_value(label)}, as asked for"
        for label, count in source["left_out_labels"].items()
    ]
    return lines


def _repeated(facts: dict[str, Any], folder: Path) -> list[str]:
    """Texts that stand more than once; where their labels contradict each other, how often and where the list lies."""
    lines = []
    for source in (facts[name] for name in ("source", "tuning_source") if name in facts):
        count, other = source["repeated_texts"], source["repeated_texts_with_other_labels"]
        where = f" of {source['file']}" if "tuning_source" in facts else ""
        if other:
            lines.append(
                f"warning: {_repeat(count, where)}, {other:,} of them with another label: no answer is right for both"
            )
        elif count:
            lines.append(f"note: {_repeat(count, where)} (blanks and case apart)")
    if "contradictions" in facts:
        found = facts["contradictions"]
        lines.append(f"  the {found['documents']:,} documents with contradicting labels: {folder / found['file']}")
    return lines


def _repeat(count: int, where: str) -> str:
    if count == 1:
        return f"1 document{where} repeats the text of another one"
    return f"{count:,} documents{where} repeat the text of another one"


def _protocol_lines(built: Built, campaign: Campaign, source: Source) -> list[str]:
    """For a campaign without a protocol, or a corpus outside of it: the lines, and how to start one."""
    try:
        folder = built.folder.resolve().relative_to(campaign.protocol_dir.resolve()).as_posix()
    except ValueError:
        folder = built.folder.resolve().as_posix()
    groups = ("stratum", *source.group_columns)
    tuning = "tuning" in built.facts["splits"]
    options = "".join(f" --group-column {shlex.quote(name)}" for name in groups)
    options += f" --tuning {shlex.quote(folder + '/tuning.csv')}" if tuning else ""
    if built.folder.resolve().is_relative_to(campaign.protocol_dir.resolve()):
        return [f"next: runner protocol new --corpus {shlex.quote(folder + '/final.csv')}{options}"]
    return [
        "for a quality-protocol.toml (the corpus must lie below its folder protocol/):",
        "  [[corpus]]",
        f'  id = "{built.facts["name"]}"',
        f"  final = {_toml(folder + '/final.csv')}",
        *([f"  tuning = {_toml(folder + '/tuning.csv')}"] if tuning else []),
        f"  group_columns = [{', '.join(_toml(name) for name in groups)}]",
        f"  licence = {_toml(built.facts['licence'])}",
        f"  permission = {_toml(built.facts['permission'])}",
        "and name it as a deliverable in plan.toml",
    ]


def _toml(text: str) -> str:
    """A TOML basic string: JSON's, but for one control character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
