#!/usr/bin/env python3
"""Writes the project's own test vectors, or checks that the committed ones are what it would write.

    python3 tests/vectors/generate.py            write tests/vectors/*.json
    python3 tests/vectors/generate.py --check    compare, and fail on a difference

Nothing in here depends on the clock or on chance. Every case has a `name`, a `why` and what to `expect`.
"""

import json
import pathlib
import sys

import artifacts
import documents
import messages
import trust

HERE = pathlib.Path(__file__).parent

FILES = {
    "canonical.json": ("Documents and their canonical form (1.1).", documents.canonical_cases),
    "numbers.json": ("Number tokens: what a signer emits and what a verifier hashes (1.3).", documents.number_cases),
    "encodings.json": ("Raw documents: their canonical form, or refused (1.2).", documents.encoding_cases),
    "did.json": ("did:key strings: their key, or refused (2.1).", documents.did_cases),
    "messages.json": (
        "Signed messages that are believed, and the payload that was signed (3.1).",
        messages.message_cases,
    ),
    "messages_refused.json": ("Messages that are refused, and where (3.4, 4.1).", messages.refused_message_cases),
    "cards.json": ("Card envelopes (6.6).", artifacts.card_cases),
    "invites.json": ("Invite cards (7.3).", artifacts.invite_cases),
    "links.json": ("Invite links (7.2).", artifacts.link_cases),
    "sealed.json": ("Sealed letters, v1 (9.4).", artifacts.sealed_cases),
    "introductions.json": ("Introductions: provenance and level, or refused (8.3).", trust.introduction_cases),
    "revocations.json": ("Revocation lists: the ids, or refused (8.4).", trust.revocation_cases),
    "linkage.json": ("DID configurations of domains (11.4).", trust.linkage_cases),
    "phrases.json": ("Recovery phrases (2.3).", documents.phrase_cases),
}


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    differ = []
    for name, (about, cases) in FILES.items():
        cases = cases()
        names = [case["name"] for case in cases]
        text = json.dumps({"about": about, "cases": cases}, indent=1, ensure_ascii=True) + "\n"
        path = HERE / name
        if not check:
            path.write_text(text, encoding="utf-8", newline="\n")
            print(f"{name}: {len(names)} cases")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            differ.append(name)
    if differ:
        sys.exit(f"not what generate.py writes: {', '.join(differ)}")


if __name__ == "__main__":
    main()
