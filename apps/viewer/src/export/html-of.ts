import { Readable } from "node:stream";
import { constants, createGzip } from "node:zlib";
import type { Session } from "@espalier/engine";
import { exportSession } from "@espalier/interop";
import { standalonePage } from "./viewer-page.ts";

export interface HtmlOptions {
  /** The built page, a file. */
  page: string;
  /** Asked of every text; see `exportSession` of @espalier/interop. Default: everything is as it is in the log. */
  redact?: (text: string) => string;
}

/**
 * A session as one HTML file that needs no server and no network, in pieces: the viewer's page with the lines of the
 * session inside, compressed. The same log gives the same file, whether the session runs or was opened again.
 *
 * @throws ViewerError `page`
 */
export async function* htmlOf(session: Session, { page, redact }: HtmlOptions): AsyncGenerator<string> {
  await session.core.load();
  const [before, after] = await standalonePage(page);
  yield before;
  yield '<script type="application/octet-stream" id="session">';
  const lines = Readable.from(exportSession(session, { format: "jsonl", redact }), { objectMode: true });
  let rest = Buffer.alloc(0);
  for await (const piece of lines.pipe(createGzip({ level: constants.Z_BEST_COMPRESSION }))) {
    const bytes = Buffer.concat([rest, piece as Buffer]);
    // Base64 in parts is base64 of the whole as long as each part is a multiple of three bytes.
    const whole = bytes.length - (bytes.length % 3);
    yield bytes.subarray(0, whole).toString("base64");
    rest = bytes.subarray(whole);
  }
  yield rest.toString("base64");
  yield "</script>";
  yield after;
}
