import { eachTerm, shorten } from "./text.ts";

/** Returns the value of a term: its rarity, or less when the summary already has it. */
export type Weigh = (term: string) => number;

/** Maximum length of a run of words that is kept or left out as one piece. */
const LONGEST_PIECE = 70;
const SHORTEST_PIECE = 14;

/** In less room than this, only the beginning of a text is kept. */
const SHORTEST_GIST = 50;

/** Maximum number of characters of a text that are searched: a quotation is never taken from further down. */
const LONGEST_TEXT = 2_000;

/** Cost of a piece in addition to its letters: the ellipsis before it. */
const GAP = 3;

const ELLIPSIS = " … ";

/**
 * Returns the most informative pieces of a text, in their order and with their words, with an ellipsis for each
 * omission: at most `room` characters. A piece ends at the end of a sentence or a clause, or before a word like "and".
 */
export function gistOf(text: string, room: number, weigh: Weigh): string {
  if (text.length <= room) return text;
  const pieces = piecesOf(text.slice(0, LONGEST_TEXT));
  const taken = new Set<Piece>();
  const told = new Set<string>();
  let left = room - 1;
  for (;;) {
    const best = bestPiece(pieces, taken, told, left, weigh);
    if (best === undefined) break;
    taken.add(best);
    for (const term of best.terms) told.add(term);
    left -= best.end - best.start + GAP;
  }
  // Words outside their sentences have little information.
  if (room < SHORTEST_GIST || left > room / 2) return shorten(text, room);
  return joinPieces(
    text,
    pieces.filter((piece) => taken.has(piece)),
    room,
  );
}

interface Piece {
  start: number;
  end: number;
  terms: Set<string>;
}

function bestPiece(
  pieces: readonly Piece[],
  taken: ReadonlySet<Piece>,
  told: ReadonlySet<string>,
  room: number,
  weigh: Weigh,
): Piece | undefined {
  let best: { piece: Piece; worth: number } | undefined;
  for (const [index, piece] of pieces.entries()) {
    const length = piece.end - piece.start;
    if (taken.has(piece) || length > room) continue;
    let sum = 0;
    for (const term of piece.terms) if (!told.has(term)) sum += weigh(term);
    // Of two pieces with the same value, the earlier one is preferred.
    const worth = (sum / (length + GAP)) * (1.2 - (0.2 * index) / pieces.length);
    if (worth > (best?.worth ?? 0)) best = { piece, worth };
  }
  return best?.piece;
}

const BORDERS =
  /[.!?:;,](?=\s)|[。！？；，、：…]|\s[–—-](?=\s)|\)(?=\s)|\s(?=\()|\s(?=(?:and|or|but|so|which|that|because|since|instead|when|where|with|for|from|to|in|into|und|weil)\s)/g;

function piecesOf(text: string): Piece[] {
  const pieces: Piece[] = [];
  let start = 0;
  const close = (end: number) => {
    const piece = text.slice(start, end);
    const lead = piece.length - piece.trimStart().length;
    const trimmed = piece.trim();
    if (trimmed !== "") {
      const terms = new Set<string>();
      eachTerm(trimmed, (term) => terms.add(term));
      pieces.push({ start: start + lead, end: start + lead + trimmed.length, terms });
    }
    start = end;
  };
  for (const match of text.matchAll(BORDERS)) {
    const end = match.index + match[0].length;
    while (end - start > LONGEST_PIECE) close(wordEnd(text, start + LONGEST_PIECE, start));
    if (end - start >= SHORTEST_PIECE) close(end);
  }
  while (text.length - start > LONGEST_PIECE) close(wordEnd(text, start + LONGEST_PIECE, start));
  close(text.length);
  return pieces;
}

/** Returns the end of the last word before an index; the index itself inside a long word. */
function wordEnd(text: string, place: number, from: number): number {
  const space = text.lastIndexOf(" ", place);
  if (space > from) return space;
  return /[\udc00-\udfff]/.test(text[place] ?? "") ? place - 1 : place;
}

function joinPieces(text: string, pieces: readonly Piece[], room: number): string {
  let joined = "";
  let end = 0;
  for (const piece of pieces) {
    const between = text.slice(end, piece.start);
    const gap = joined === "" ? (piece.start > 0 ? "…" : "") : between.trim() === "" ? between : ELLIPSIS;
    joined += gap + text.slice(piece.start, piece.end);
    end = piece.end;
  }
  if (end < text.trimEnd().length) joined += "…";
  const whole = joined.replace(/[…\s]*…[…\s]*…/g, ELLIPSIS).replace(/,…/g, "…");
  return shorten((whole.match(/`/g)?.length ?? 0) % 2 === 1 ? whole.replaceAll("`", "'") : whole, room);
}
