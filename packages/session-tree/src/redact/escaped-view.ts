/** A text as it reads behind its escapes. */
export interface View {
  text: string;
  /** Places in `text` from which on it stands at the places of `rawFrom`, until the next. */
  from: number[];
  rawFrom: number[];
  /** Characters that an escape is in `text`. */
  width: 0 | 1;
}

/** A text as it reads behind its escapes, and without its colours; nothing where it has none. */
export function viewsBehindEscapes(text: string): View[] {
  if (!ESCAPE.test(text)) return [];
  const views = [viewOf(text, 1), ...(COLOUR.test(text) ? [viewOf(text, 0)] : [])];
  return views.filter(({ from }) => from.length > 1);
}

const ESCAPE = /[\\%&\u001b]/;
const COLOUR = /(?:\u001b|\\(?:x1b|u001b|0?33|e))\[/i;
const COLOURS = /(?:\u001b|\\{1,8}(?:x1b|u001b|0?33|e))\[[0-9;:?]{0,40}[A-Za-z]/giy;
/** Beginning of what is no plain character. */
const SPECIAL = /[\\%&\u001b]/g;
/** An escape of a language, also one that was escaped again; a percent-encoded character; an entity. */
const ESCAPES =
  /\\{1,8}(?:u([0-9a-f]{4})|x([0-9a-f]{2})|([nrtbfv0"'`/]))|%(?:25){0,8}([0-9a-f]{2})|&(?:(quot|amp|apos|lt|gt|nbsp)|#(\d{1,3})|#x([0-9a-f]{1,4}));/iy;
const ENTITIES: Record<string, string> = { quot: '"', amp: "&", apos: "'", lt: "<", gt: ">", nbsp: " " };

/** The text with each escape as the character that it writes, a colour as a blank; or without colours alone. */
function viewOf(text: string, width: 0 | 1): View {
  const view: View = { text: "", from: [0], rawFrom: [0], width };
  const parts: string[] = [];
  let length = 0;
  let last = 0;
  SPECIAL.lastIndex = 0;
  for (let special = SPECIAL.exec(text); special; special = SPECIAL.exec(text)) {
    const at = special.index;
    COLOURS.lastIndex = at;
    ESCAPES.lastIndex = at;
    const isColour = COLOURS.test(text);
    const written = isColour || width === 0 ? undefined : ESCAPES.exec(text);
    if (!isColour && !written) continue;
    const end = isColour ? COLOURS.lastIndex : ESCAPES.lastIndex;
    parts.push(text.slice(last, at), written ? characterOf(written) : width === 1 ? " " : "");
    length += at - last + width;
    last = end;
    SPECIAL.lastIndex = end;
    view.from.push(length);
    view.rawFrom.push(last);
  }
  view.text = parts.join("") + text.slice(last);
  return view;
}

function characterOf([
  ,
  unicode,
  hex,
  plain,
  percent,
  entity,
  decimal,
  hexadecimal,
]: RegExpExecArray): string {
  if (plain !== undefined) return /\w/.test(plain) ? "\n" : plain;
  if (entity !== undefined) return ENTITIES[entity.toLowerCase()]!;
  const code = unicode ?? hex ?? percent ?? hexadecimal;
  return String.fromCharCode(code === undefined ? Number(decimal) : Number.parseInt(code, 16));
}

/** Place in the text itself of a place in a view. */
export function rawPlace({ from, rawFrom }: View, place: number): number {
  let low = 0;
  for (let high = from.length; high - low > 1; ) {
    const middle = (low + high) >> 1;
    if (from[middle]! <= place) low = middle;
    else high = middle;
  }
  return rawFrom[low]! + place - from[low]!;
}
