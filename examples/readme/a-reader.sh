espalier tree session.jsonl                     # branches, labels, summaries, current path
espalier context session.jsonl --at checkpoint  # the context at a label
espalier search "virus scanner" .               # find a text in the session files of this folder
espalier diff session.jsonl progress-bar leaf   # compare two branches
espalier navigate session.jsonl works-offline --summarize # go back, with a summary of the abandoned branch
espalier undo session.jsonl                     # undo the last act
espalier hide session.jsonl works-offline       # remove an answer from the context
espalier fork session.jsonl checkpoint --out mine.jsonl
espalier policies session.jsonl                 # what each compaction policy would keep
espalier eval session.jsonl                     # measure how much each summary keeps
espalier replay session.jsonl --verify          # each step, rebuilt and compared
espalier export session.jsonl --format markdown --out session.md
espalier doctor session.jsonl                   # damaged lines, by number and offset
espalier stats session.jsonl                    # tokens and cost, by model and purpose
espalier cache session.jsonl                    # which entry broke the prompt cache, and what that cost
