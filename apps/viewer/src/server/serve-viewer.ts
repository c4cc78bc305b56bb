import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { constants, gzipSync } from "node:zlib";
import type { ActOptions, Session } from "@espalier/engine";
import { type ExportOptions, exportSession } from "@espalier/interop";
import { jsonText } from "@espalier/jsonl-stream";
import { redactText } from "@espalier/session-tree";
import { createAdaptorServer } from "@hono/node-server";
import { type Context, Hono, type MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import { compress } from "hono/compress";
import { streamSSE } from "hono/streaming";
import { sessionAttributes } from "../model/tree-reader.ts";
import {
  OpenSessions,
  type Order,
  planRoutes,
  type Query,
  readRoutes,
  type ViewerSessions,
  watchList,
  watchSession,
  writeRoutes,
} from "./open-sessions.ts";
import { failureAnswer, ViewerError } from "./viewer-error.ts";

export interface ServeOptions {
  sessions: ViewerSessions;
  /** File of the built page. */
  page: string;
  /** True: sessions may be changed. Default false. */
  write?: boolean;
  /** Default: a free port. */
  port?: number;
}

/** A running server. */
export interface ViewerServer {
  /** Address to open. Everybody who knows it may read all shown sessions. */
  url: string;
  /** Returns the address that opens one session. */
  addressOf(session: { id: string; ref: string }): string;
  close(): Promise<void>;
}

/** Bytes of the token: too many to guess. */
const TOKEN_BYTES = 24;

/**
 * Serves sessions to browsers of this machine.
 * @throws ViewerError `port` if the port cannot be used, `page` if the page cannot be read, usually because it was not built
 */
export async function serveViewer(options: ServeOptions): Promise<ViewerServer> {
  const { sessions, page, write = false, port = 0 } = options;
  const token = randomBytes(TOKEN_BYTES).toString("base64url");
  const open = new OpenSessions(sessions);
  const app = viewerApp(token, open, await servedPage(page, write), options);
  const server = createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false });
  server.listen(port, "127.0.0.1");
  await once(server, "listening").catch((cause: unknown) => {
    throw new ViewerError("port", `Port ${port} cannot be used; choose another one.`, { cause });
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/${token}/`;
  return {
    url,
    addressOf: ({ id, ref }) => `${url}#/s/${open.keyOf(id, ref)}`,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      if ("closeAllConnections" in server) server.closeAllConnections();
      await closed;
      await open.close();
    },
  };
}

/**
 * All requests that the server answers; docs/viewer-api.md describes them.
 *
 * @param token first part of every path
 */
function viewerApp(
  token: string,
  open: OpenSessions,
  page: Awaited<ReturnType<typeof servedPage>>,
  { sessions, page: file, write = false }: ServeOptions,
): Hono {
  const app = new Hono();
  app.onError((error, context) => {
    const { status, error: told } = failureAnswer(error);
    return context.json({ error: told }, status);
  });
  app.notFound((context) => context.json({ error: NOTHING_HERE }, 404));
  app.use(safeHeaders);
  app.use(guard(token));

  const api = app.basePath(`/${token}`);
  // Events are sent at once; compression would delay them.
  api.get("/api/events", (context) => streamEvents(context, "list", (signal) => watchList(open, signal)));
  api.get("/api/sessions/:key/events", async (context) => {
    const key = context.req.param("key");
    // For a missing session the client gets an error instead of a stream that ends.
    await open.read(key, () => undefined);
    // A removed session ends its events; a new request gets the reason.
    const end = async () => undefined;
    return streamEvents(context, "pulse", (signal) => watchSession(open, key, signal), end);
  });
  api.post("/api/sessions/:key/:act", smallBody, async (context) => {
    const name = context.req.param("act");
    const act = Object.hasOwn(writeRoutes, name) ? writeRoutes[name] : undefined;
    if (!act) throw new ViewerError("not-found", NOTHING_HERE.message);
    if (!write)
      throw new ViewerError(
        "read-only",
        "This server only reads; start it with `--write` to change sessions.",
      );
    const order = await orderIn(context.req.raw);
    const ref = await open.refOf(context.req.param("key"));
    // A fork without a summary bills nothing, so nothing is written to the session itself.
    const beside = name === "label" || (name === "fork" && order["summarize"] !== true);
    const stream = streamAct(async (options) => {
      const session = await sessions.write(ref, { beside });
      try {
        return await act(session, order, options);
      } finally {
        await session.close();
      }
    });
    return context.body(stream, 200, { "content-type": "application/x-ndjson" });
  });

  api.use(compress({ threshold: 1_024 }));
  // The address ends with a slash, because the page requests addresses below it.
  app.get(`/${token}/`, (context) =>
    context.body(page.html, 200, {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": page.policy,
    }),
  );
  api.get("/api", (context) => context.json({ write }));
  api.get("/api/sessions", async (context) => context.json(await open.list()));
  api.get("/api/search", async (context) => {
    const { q = "", agent, project, since } = context.req.query();
    if (q === "") throw new ViewerError("bad-request", "The address needs `q`, the text to search for.");
    const filter = {
      ...(agent === undefined ? {} : { agent }),
      ...(project === undefined ? {} : { project }),
      ...(since === undefined ? {} : { since: timeIn(since) }),
    };
    return context.json(await open.search(q, filter, context.req.raw.signal));
  });
  api.get("/api/found", (context) => context.json({ found: sessions.found?.() ?? "" }));
  api.get("/api/sessions/:key/subagents", async (context) =>
    context.json(await open.subAgents(context.req.param("key"))),
  );
  api.get("/api/sessions/:key/export", async (context) => {
    const key = context.req.param("key");
    const { format = "", at, redact } = context.req.query();
    if (!isExport(format))
      throw new ViewerError("bad-request", `\`format\` is one of ${Object.keys(EXPORTS).join(", ")}.`);
    const { type, end } = EXPORTS[format];
    const name = await open.read(key, ({ tree }) => {
      if (at !== undefined) tree.row(at);
      return tree.header?.id ?? "session";
    });
    const options = { at, ...(redact === undefined ? {} : { redact: redactText }) };
    const body = streamText((write) =>
      open.read(key, async (_, session) => {
        const pieces =
          format === "html"
            ? await htmlOf(session, { page: file, ...options })
            : exportSession(session, { format, all: at === undefined, ...options });
        for (const chunk of chunksOf(pieces)) await write(chunk);
      }),
    );
    return context.body(body, 200, {
      "content-type": `${type}; charset=utf-8`,
      "content-disposition": `attachment; filename="${name.replace(/[^\w.-]/g, "_")}.${end}"`,
    });
  });
  api.get("/api/sessions/:key/:what", async (context) => {
    const what = context.req.param("what");
    const key = context.req.param("key");
    const query: Query = (name) => context.req.query(name);
    const answer = Object.hasOwn(planRoutes, what)
      ? await open.plan(key, (session) => planRoutes[what]!(session, query))
      : await open.read(key, async (reader) => {
          const read = Object.hasOwn(readRoutes, what) ? readRoutes[what] : undefined;
          if (!read) throw new ViewerError("not-found", NOTHING_HERE.message);
          return read(reader, query, context.req.raw.signal);
        });
    return context.body(jsonText(answer), 200, { "content-type": "application/json" });
  });
  return app;
}

const NOTHING_HERE = { code: "not-found", message: "There is nothing at this address." };

function timeIn(text: string): Date {
  const time = new Date(text);
  if (!Number.isNaN(time.getTime())) return time;
  throw new ViewerError("bad-request", "`since` is a time, for example 2026-03-09T00:00:00Z.");
}

/** Formats of an export, with their media types and the ends of their files. */
const EXPORTS = {
  markdown: { type: "text/markdown", end: "md" },
  html: { type: "text/html", end: "html" },
  json: { type: "application/json", end: "json" },
  jsonl: { type: "application/jsonl", end: "jsonl" },
} as const;

const isExport = (name: string): name is keyof typeof EXPORTS => Object.hasOwn(EXPORTS, name);

/** Streams states as events until the client leaves. */
const streamEvents = (
  context: Context,
  event: string,
  states: (signal: AbortSignal) => AsyncIterable<object>,
  onError?: () => Promise<void>,
): Response =>
  streamSSE(
    context,
    async (stream) => {
      const ending = new AbortController();
      stream.onAbort(() => ending.abort());
      for await (const state of states(ending.signal))
        await stream.writeSSE({ event, data: JSON.stringify(state) });
    },
    onError,
  );

/**
 * Streams a text while it is written. A failure ends the connection, so that the client notices an incomplete text.
 *
 * @param run writes the text; its signal aborts when the client stops reading
 */
function streamText(
  run: (write: (text: string) => Promise<void>, signal: AbortSignal) => Promise<void>,
): ReadableStream<Uint8Array> {
  const { readable, writable } = new TransformStream<string, string>();
  const writer = writable.getWriter();
  const leaving = new AbortController();
  writer.closed.catch(() => leaving.abort());
  run((text) => writer.write(text), leaving.signal)
    .then(() => writer.close())
    // The reader of the stream receives the error; a reader that has left needs none.
    .catch((error: unknown) => writer.abort(error).catch(() => undefined));
  return readable.pipeThrough(new TextEncoderStream());
}

/** Number of characters that are sent at once. */
const CHUNK = 1 << 16;

function* chunksOf(pieces: Iterable<string>): Generator<string> {
  let chunk = "";
  for (const piece of pieces) {
    chunk += piece;
    if (chunk.length < CHUNK) continue;
    yield chunk;
    chunk = "";
  }
  yield chunk;
}

/**
 * Reads a change from a JSON body. Forms of other pages cannot send this content type.
 * @throws ViewerError `bad-request` for a body of another type, or that is not a JSON object
 */
async function orderIn(request: Request): Promise<Order> {
  const isJson = /^application\/json\b/.test(request.headers.get("content-type") ?? "");
  const order: unknown = isJson ? await request.json().catch(ifNoJson) : undefined;
  if (typeof order === "object" && order !== null && !Array.isArray(order)) return order as Order;
  throw new ViewerError("bad-request", "A change is sent as a JSON object, with that content type.");
}

/** A body that is not JSON is refused below. A body that is too long or cut off ends the request. */
function ifNoJson(error: unknown): undefined {
  if (!(error instanceof SyntaxError)) throw error;
}

/** Maximum size of a change in bytes: far more than a label or instructions for a summary need. */
const LONGEST_ORDER = 1024 * 1024;

const smallBody = bodyLimit({
  maxSize: LONGEST_ORDER,
  onError: (context) => {
    const { status, error } = failureAnswer(
      new ViewerError("too-large", "A change is limited to 1 MiB; send a shorter text."),
    );
    // The rest of the body is not read, so the next request needs a new connection.
    return context.json({ error }, status, { connection: "close" });
  },
});

/**
 * Streams a long act as JSON Lines: `{progress}` at the beginning and at each progress, then one `{result}` or `{error}`.
 * If the client stops reading, the act is aborted; a change that was written before stays.
 */
const streamAct = (act: (options: Required<ActOptions>) => Promise<unknown>): ReadableStream<Uint8Array> =>
  streamText(async (write, signal) => {
    // A client that has left needs no line.
    const tell = (value: object) => write(`${jsonText(value)}\n`).catch(() => undefined);
    const onProgress = ({ outputTokens }: { outputTokens: number }) =>
      void tell({ progress: { outputTokens } });
    onProgress({ outputTokens: 0 });
    await act({ signal, onProgress }).then(
      (result) => tell({ result }),
      (error: unknown) => tell({ error: failureAnswer(error).error }),
    );
  });

/** Headers of every answer, including errors: no caching, no content sniffing, no frames, no referrer. */
const safeHeaders: MiddlewareHandler = async (context, next) => {
  await next();
  const { headers: answer } = context.res;
  answer.set("cache-control", "no-store");
  answer.set("referrer-policy", "no-referrer");
  answer.set("x-content-type-options", "nosniff");
  answer.set("x-frame-options", "DENY");
  answer.set("cross-origin-resource-policy", "same-origin");
  answer.set("cross-origin-opener-policy", "same-origin");
};

/**
 * Accepts only requests with the token, to a local host name, and not from another page. So a page of another origin
 * that guesses the port can neither read nor write, and neither can a foreign host name that resolves to 127.0.0.1.
 *
 * @param token first part of every path
 */
function guard(token: string): MiddlewareHandler {
  const wanted = Buffer.from(token);
  return async (context, next) => {
    const { headers, url } = context.req.raw;
    const host = headers.get("host") ?? "";
    if (!isLocal(host)) throw forbidden("This server answers to 127.0.0.1 and localhost only.");
    const origin = headers.get("origin");
    if (origin !== null && origin !== `http://${host}`)
      throw forbidden("Another page cannot ask this server; open the address that was printed.");
    const site = headers.get("sec-fetch-site");
    if (site !== null && site !== "same-origin" && site !== "none" && context.req.method !== "GET")
      throw forbidden("Another page cannot change anything here.");
    const given = Buffer.from(new URL(url).pathname.split("/")[1] ?? "");
    if (given.length !== wanted.length || !timingSafeEqual(given, wanted))
      throw new ViewerError("not-found", "There is nothing here; open the address that the server printed.");
    await next();
  };
}

const isLocal = (host: string): boolean => /^(127\.0\.0\.1|localhost)(:\d+)?$/.test(host);
const forbidden = (message: string): ViewerError => new ViewerError("forbidden", message);

export interface HtmlOptions extends Pick<ExportOptions, "at" | "redact"> {
  /** File of the built page. */
  page: string;
}

/** Bytes that are encoded at once. A multiple of three, so that the parts of the base64 text can be joined. */
const PART = 3 << 16;

/**
 * Exports a session as one HTML file that needs no server and no network: the viewer's page with the compressed lines
 * of the session inside. The same log gives the same file, whether the session is running or was opened again. The
 * generator returns the number of entries.
 *
 * @throws ViewerError `page`; EspalierError `unknown-entry`, by the generator, before the first piece
 */
export async function htmlOf(
  session: Session,
  { page, at, redact }: HtmlOptions,
): Promise<Generator<string, number>> {
  await session.load();
  const [before, after] = await standalonePage(page);
  return htmlPieces(session, before, exportSession(session, { format: "jsonl", at, redact }), after);
}

function* htmlPieces(
  { header, tree }: Pick<Session, "header" | "tree">,
  before: string,
  lines: Generator<string, number>,
  after: string,
): Generator<string, number> {
  const chunks: Buffer[] = [];
  let next = lines.next();
  for (; !next.done; next = lines.next()) chunks.push(Buffer.from(next.value));
  const packed = gzipSync(Buffer.concat(chunks), { level: constants.Z_BEST_COMPRESSION });
  // The operating system is not part of the session.
  packed[OPERATING_SYSTEM] = UNKNOWN_SYSTEM;
  yield `${before}<script ${sessionAttributes(header?.id ?? "", tree.length - next.value)}>`;
  for (let at = 0; at < packed.length; at += PART) yield packed.toString("base64", at, at + PART);
  yield `</script>${after}`;
  return next.value;
}

/**
 * RFC 1952, section 2.3: the byte of a gzip header that names the operating system, and its value for an unknown one.
 */
const OPERATING_SYSTEM = 9;
const UNKNOWN_SYSTEM = 255;

/** Marks the place of a session in the page, and of the policy of a page without a server. */
const DATA_PLACE = "<!--session-->";
const POLICY_PLACE = "<!--policy-->";

/**
 * Returns the page as the server sends it. Attributes tell the page that it has a server, and whether the server may
 * write. The policy of a file has no effect there; an export of the page needs it.
 */
async function servedPage(file: string, write: boolean): Promise<{ html: string; policy: string }> {
  const html = await readPage(file);
  const served = `<html data-served="${write ? "write" : "read"}"`;
  return {
    html: html.replace(POLICY_PLACE, policyMeta(html, 'name="policy"')).replace("<html", served),
    policy: `${policyOf(html, "'self'")}; frame-ancestors 'none'`,
  };
}

/** Returns the page as a self-contained file, in two parts: before the session and after it. */
async function standalonePage(file: string): Promise<[string, string]> {
  const html = await readPage(file);
  const policy = policyMeta(html, 'http-equiv="Content-Security-Policy"');
  const [before = "", after = ""] = html.replace(POLICY_PLACE, policy).split(DATA_PLACE);
  return [before, after];
}

const policyMeta = (html: string, named: string): string =>
  `<meta ${named} content="${policyOf(html, "'none'")}">`;

/**
 * Content policy: only the page's own script and style, by their digests, and only images inside the session. Text
 * becomes markup only through the sanitizer.
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
      { cause },
    );
  }
}
