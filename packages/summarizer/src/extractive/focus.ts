const SHORTEST_WORD = 4;
const MOST_WORDS = 100;

/** A test for texts that have a word of the instructions in them; always false without instructions. */
export function focusOn(instructions: string | undefined): (text: string) => boolean {
  const found =
    instructions
      ?.slice(0, 10_000)
      .toLowerCase()
      .match(/[\p{L}\p{N}_]+/gu) ?? [];
  const words = [...new Set(found)]
    .filter((word) => word.length >= SHORTEST_WORD && !COMMON.has(word))
    .slice(0, MOST_WORDS);
  if (words.length === 0) return () => false;
  return (text) => {
    const lower = text.toLowerCase();
    return words.some((word) => lower.includes(word));
  };
}

/** Words that instructions are made of and that say nothing of what they are about. */
const COMMON = new Set(
  "about also attention attend contain context details especially everything focus from include into keep list make only pay please preserve summarise summarize summary that their them these this those what when where which with your".split(
    " ",
  ),
);
