"""Commands that do a check with tools that are not ours: coreutils, OpenSSH, Poppler, plain Python.

Each is one line for a shell in the campaign folder. docs/checking.md explains them; a test runs them on
good and on spoilt notes.
"""

from __future__ import annotations

import re
import shlex

from runner.evidence.campaign import Campaign
from runner.evidence.store import AttemptStore
from runner.protocol.lockfile import read_lock

PLAIN_FILES = "find note protocol records templates verdicts tariffs.csv ! -type f ! -type d   (prints nothing)"
PRIVATE_KEYS = (
    'grep -rlI -e "-----BEGIN .*PRIVATE KEY-----" note protocol records templates verdicts; '
    'find . -name "*.p12" -o -name "*.pfx"   (prints nothing)'
)
NOTE_NAME = "head -n 3 note/SHA256SUMS   (purpose, note and key)"
ATTACHMENTS = (
    "mkdir -p /tmp/attached && pdfdetach -saveall -o /tmp/attached note/decision-note.pdf && "
    'for f in /tmp/attached/*; do cmp "$f" "$(basename "$f" | tr "~" /)"; done   (prints nothing; '
    "an evidence.zip holds the records and verdicts)"
)
TEMPLATES = "diff -r templates PROJECT/templates   (PROJECT: a checkout of this project; prints nothing)"
PAGES = "pdftotext -layout note/decision-note.pdf -   (read it beside note/decision-note.qmd)"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_ROWS = "import json,glob,hashlib;R=[json.load(open(f)) for f in glob.glob('records/attempts/*.json')];"
_HASH = (
    "H={(r['chain']['machine_id'],r['chain']['index']):hashlib.sha256(json.dumps(r,sort_keys=True,"
    "separators=(',',':'),ensure_ascii=False).encode()).hexdigest() for r in R};"
)


def _python(code: str) -> str:
    """The code, which holds single quotes only, as one word of a shell line.

    `-I`: a file such as `json.py` in a folder that comes from a stranger is never imported.
    """
    return f'python3 -I -c "{code}"'


CHAIN = (
    _python(
        _ROWS + _HASH + "print([r['attempt_id'] for r in R if r['chain']['previous_sha256']!="
        "H.get((r['chain']['machine_id'],r['chain']['index']-1))])"
    )
    + "   (prints [])"
)
MEASURED_FILES = (
    _python(
        _ROWS + "[print(r[k]['sha256'],r[k]['path'],sep='  ') for r in R "
        "for k in ('predictions','memory_timeline','journal') if r[k]]"
    )
    + " | sha256sum -c"
)
DECISION = (
    _python(
        "import csv,statistics as s;D={};[D.setdefault((r['gpu_declared'],r['variant_id'],r['corpus_id']),[])"
        ".append(float(r['pass_seconds'])) for r in csv.DictReader(open('note/attempts.csv',encoding='utf-8')) "
        "if r['counts_as']=='accepted'];[print(k,len(v),s.median(v),min(v),max(v)) for k,v in D.items()]"
    )
    + "   (compare with note/balance.csv and the note)"
)


def shell_word(name: str) -> str:
    """A path as one word of a shell line that people copy: quoted where it must be, never taken for an option."""
    return shlex.quote(f"./{name}" if name.startswith("-") else name)


def unpack_command(pdf: str) -> str:
    """Take the evidence out of a PDF, into a folder in which the lines for a campaign folder work."""
    return (
        f"mkdir /tmp/evidence && pdfdetach -saveall -o /tmp/evidence {shell_word(pdf)} && "
        '(cd /tmp/evidence && for f in *; do p=$(printf %s "$f" | tr \'~\' /); mkdir -p "$(dirname "$p")" && '
        '[ "$f" = "$p" ] || mv "$f" "$p"; done; [ ! -f evidence.zip ] || unzip -q evidence.zip)'
    )


def _plain(*names: str) -> bool:
    """Names may stand in a command that people copy only if no shell and no quotes can read them otherwise."""
    return all(_PLAIN.fullmatch(name) for name in names)


def model_command(folder: str) -> str | None:
    """Hash the model's files and compare them with the lock's; None for a folder of an unusual name."""
    if not _plain(folder):
        return None
    code = (
        f"import json;[print(f['sha256'],{folder + '/'!r}+f['path'],sep='  ') for f in "
        "json.load(open('protocol/protocol.lock.json'))['judgement']['model_files']]"
    )
    return _python(code) + " | sha256sum -c"


def verdict_command(campaign: Campaign) -> str | None:
    """Right answers of one attempt, counted from its predictions and the frozen labels (needs pandas, pyarrow)."""
    references = {corpus.id: corpus.reference for corpus in read_lock(campaign).judgement.corpora}
    for attempt in AttemptStore(campaign).scan().attempts:
        reference = references.get(attempt.corpus_id)
        if attempt.predictions is None or reference is None or attempt.predictions_partial:
            continue
        if _plain(attempt.predictions.path, reference.path, attempt.attempt_id):
            code = (
                f"import pandas as p;r=p.read_parquet({_place(campaign, reference.path)!r});"
                f"d=p.read_parquet({attempt.predictions.path!r}).merge(r,on='id',suffixes=('','_right'));"
                "print((d['label']==d['label_right']).sum(),len(d),len(r))"
            )
            shown = f"verdicts/{attempt.attempt_id}.json"
            return _python(code) + f"   (right, compared, expected: as {shown} says; the others alike)"
    return None


def _place(campaign: Campaign, path: str) -> str:
    """Locked paths are below `protocol/`, or below the campaign."""
    return f"protocol/{path}" if (campaign.protocol_dir / path).is_file() else path
