import { constants, gzipSync } from "node:zlib";
import type { Session } from "@espalier/engine";
import { type ExportOptions, exportSession } from "@espalier/interop";
import { standalonePage } from "./viewer-page.ts";

export interface HtmlOptions extends Pick<ExportOptions, "at" | "redact"> {
  /** The built page, a file. */
  page: string;
}

/** Bytes that become text at once: a multiple of three, so that the parts of base64 are base64 of the whole. */
const PART = 3 << 16;

/**
 * A session as one HTML file that needs no server and no network, in pieces: the viewer's page with the lines of the
 * session inside, compressed. The same log gives the same file, whether the session runs or was opened again. Returns
 * how many entries it holds.
 *
 * @throws ViewerError `page`; SessionTreeError `unknown-entry`
 */
export async function htmlOf(
  session: Session,
  { page, at, redact }: HtmlOptions,
): Promise<Generator<string, number>> {
  await session.core.load();
  const [before, after] = await standalonePage(page);
  return htmlPieces(before, exportSession(session, { format: "jsonl", at, redact }), after);
}

function* htmlPieces(
  before: string,
  lines: Generator<string, number>,
  after: string,
): Generator<string, number> {
  const chunks: Buffer[] = [];
  let next = lines.next();
  for (; !next.done; next = lines.next()) chunks.push(Buffer.from(next.value));
  const packed = gzipSync(Buffer.concat(chunks), { level: constants.Z_BEST_COMPRESSION });
  // Where it was packed says nothing of the session.
  packed[OPERATING_SYSTEM] = UNKNOWN_SYSTEM;
  yield `${before}<script type="application/octet-stream" id="session">`;
  for (let at = 0; at < packed.length; at += PART) yield packed.toString("base64", at, at + PART);
  yield `</script>${after}`;
  return next.value;
}

/** RFC 1952, section 2.3: the byte of a gzip header that names the system, and its value for none. */
const OPERATING_SYSTEM = 9;
const UNKNOWN_SYSTEM = 255;
