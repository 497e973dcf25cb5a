"""Whether small real exports still come through consumers as recorded: CI runs this for OpenCV and tract, in pinned versions.

    python benchmarks/consumer_outcomes.py opencv --consumer-env ENV           # fails if an outcome is below the recorded one
    python benchmarks/consumer_outcomes.py opencv --consumer-env ENV --record

Each model is repaired by `fix --target`, and the consumer runs the result. consumer_outcomes.json has the outcomes: for each
version of a consumer and each model of tests/models the state of the verdict. A version without outcomes is an error.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent))

from consumers import asked, fixed

from rewriter.trust.consumers.asking import find, known
from rewriter.trust.consumers.consumer_verdict import Consumer, Verdict

MODELS = Path(__file__).parents[1] / "tests" / "models"
RECORD = Path(__file__).with_suffix(".json")


def outcome(model: str, target: str, consumer: Consumer) -> Verdict:
    """The verdict on a model after `fix --target`."""
    with TemporaryDirectory() as folder:
        return asked(consumer, fixed(MODELS / model / "model.onnx", Path(folder, "fixed.onnx"), target, []))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("consumer", choices=known())
    parser.add_argument("--consumer-env", required=True)
    parser.add_argument("--record", action="store_true", help="write the outcomes for the version that is installed")
    args = parser.parse_args()
    record: dict[str, dict[str, str]] = json.loads(RECORD.read_text(encoding="utf-8"))
    consumer = find(args.consumer, [args.consumer_env])
    if consumer is None or (consumer.version not in record and not args.record):
        print(f"{consumer.version if consumer else args.consumer}: no outcomes are recorded for it", file=sys.stderr)
        return 1
    models = sorted({model for outcomes in record.values() for model in outcomes})
    verdicts = {model: outcome(model, args.consumer, consumer) for model in models}
    if args.record:
        record[consumer.version] = {model: verdict.state for model, verdict in verdicts.items()}
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        return 0
    recorded = {model: Verdict(consumer.version, state) for model, state in record[consumer.version].items()}  # type: ignore[arg-type]
    worse = [model for model in models if verdicts[model].rank < recorded[model].rank]
    for model in worse:
        print(f"{model}: {recorded[model].state} is recorded: {verdicts[model].sentence}")
    right = sum(verdict.state == "equal" for verdict in verdicts.values())
    better = sum(verdicts[model].rank > recorded[model].rank for model in models)
    print(f"{consumer.version}: {len(models)} models, {right} correct, {len(worse)} worse than recorded, {better} better")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
