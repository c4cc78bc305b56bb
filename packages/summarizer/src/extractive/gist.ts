import { eachTerm, shorten } from "./text.ts";

/** Worth of telling a term: its rarity, less where it was told already. */
export type Weigh = (term: string) => number;

/** Longest run of words that is taken or left as one piece. */
const LONGEST_PIECE = 70;
const SHORTEST_PIECE = 14;

/** In less room than this a text is told by its beginning. */
const SHORTEST_GIST = 50;

/** Text beyond this many characters is not looked at: a quotation is never taken from further down. */
const LONGEST_TEXT = 2_000;

/** Cost of a piece beside its letters: the ellipsis before it. */
const GAP = 3;

const ELLIPSIS = " … ";

/**
 * The pieces of a text that say most for their length, in their order and their words, with an ellipsis where something
 * is left out: at most `room` characters. A piece ends where a sentence or a clause does, or where the words say "and".
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
  // Little is told by words out of their sentences.
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
    // The earlier of two pieces that say as much.
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

/** The end of the last word before a place; the place itself inside a long word. */
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
