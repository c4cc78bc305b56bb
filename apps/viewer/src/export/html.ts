import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { constants, gzipSync } from "node:zlib";
import type { Session } from "@espalier/engine";
import { type ExportOptions, exportSession } from "@espalier/interop";
import { ViewerError } from "../server/viewer-error.ts";

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
 * @throws ViewerError `page`; EspalierError `unknown-entry`
 */
export async function htmlOf(
  session: Session,
  { page, at, redact }: HtmlOptions,
): Promise<Generator<string, number>> {
  await session.load();
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

/** Place of a session in the page, and of its policy when no server sends one. */
const DATA_PLACE = "<!--session-->";
const POLICY_PLACE = "<!--policy-->";

/** The page as the server sends it: it knows from the start that it has one, and what the server may do. */
export async function servedPage(file: string, write: boolean): Promise<{ html: string; policy: string }> {
  const html = await readPage(file);
  const served = `<html data-served="${write ? "write" : "read"}"`;
  return {
    html: html.replace(POLICY_PLACE, "").replace("<html", served),
    policy: `${policyOf(html, "'self'")}; frame-ancestors 'none'`,
  };
}

/** The page as a self-contained file, in two parts: before the session and after it. */
async function standalonePage(file: string): Promise<[string, string]> {
  const html = await readPage(file);
  const policy = `<meta http-equiv="Content-Security-Policy" content="${policyOf(html, "'none'")}">`;
  const [before = "", after = ""] = html.replace(POLICY_PLACE, policy).split(DATA_PLACE);
  return [before, after];
}

/**
 * Nothing but the page's own script and style, by their digests; pictures only out of the session itself. Text becomes
 * markup in one place, the sanitiser's.
 */
function policyOf(html: string, connect: string): string {
  return [
    "default-src 'none'",
    `script-src ${digestsOf(html, "script")}`,
    `style-src ${digestsOf(html, "style")}`,
    "img-src data:",
    `connect-src ${connect}`,
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types dompurify",
  ].join("; ");
}

function digestsOf(html: string, tag: string): string {
  const found = [...html.matchAll(new RegExp(`<${tag}(?: type="module")?>([\\s\\S]*?)</${tag}>`, "g"))];
  return found
    .map(([, text = ""]) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`)
    .join(" ");
}

async function readPage(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (cause) {
    throw new ViewerError(
      "page",
      `The viewer's page is not at ${file}; build it with \`npm run -s --prefix apps/viewer build\`.`,
      {
        cause,
      },
    );
  }
}
