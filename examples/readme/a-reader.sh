espalier tree session.jsonl                     # branches, labels, summaries, the path the model reads
espalier context session.jsonl --at checkpoint  # what it read there, message by message
espalier search "virus scanner" .               # everything that was said, in every session
espalier diff session.jsonl progress-bar leaf   # two branches, from where they part
espalier navigate session.jsonl works-offline --summarize # go back, and take the lesson along
espalier undo session.jsonl                     # or not
espalier hide session.jsonl works-offline       # leave an answer out of what the model reads
espalier fork session.jsonl checkpoint --out mine.jsonl
espalier policies session.jsonl                 # what each way of compacting would keep
espalier eval session.jsonl                     # how much of it each summary keeps, measured
espalier replay session.jsonl --verify          # step by step, each built anew and compared
espalier export session.jsonl --format markdown --out session.md
espalier doctor session.jsonl                   # what is wrong, by line and offset
espalier stats session.jsonl                    # what it cost, and where
espalier cache session.jsonl                    # which entry broke the prompt cache, and what that cost
