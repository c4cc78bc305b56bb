import { jsonText } from "@espalier/jsonl-stream";
import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { compress } from "hono/compress";
import { streamSSE } from "hono/streaming";
import { failureAnswer } from "./failure.ts";
import { guard, safeHeaders } from "./guard.ts";
import type { OpenSessions } from "./open-sessions.ts";
import { readRoutes } from "./read-routes.ts";
import { streamAct } from "./stream-lines.ts";
import { ViewerError } from "./viewer-error.ts";
import type { ViewerSessions } from "./viewer-sessions.ts";
import { watchSession } from "./watch-session.ts";
import { type Order, writeRoutes } from "./write-routes.ts";

export interface ViewerAppOptions {
  /** Stands first in every path. */
  token: string;
  sessions: ViewerSessions;
  open: OpenSessions;
  /** The page, and the policy that goes with it. */
  page: { html: string; policy: string };
  /** Whether sessions may be changed. */
  write: boolean;
}

/** Hits that a search tells at the most. */
const MOST_HITS = 500;

/** Everything the server answers; docs/viewer-api.md tells it to programs. */
export function viewerApp({ token, sessions, open, page, write }: ViewerAppOptions): Hono {
  const app = new Hono();
  app.onError((error, context) => {
    const { status, error: told } = failureAnswer(error);
    return context.json({ error: told }, status);
  });
  app.notFound((context) => context.json({ error: NOTHING_HERE }, 404));
  app.use(safeHeaders);
  app.use(guard(token));

  const api = app.basePath(`/${token}`);
  // Events are sent as they come; a compressor would hold them back.
  api.get("/api/sessions/:key/events", async (context) => {
    const key = context.req.param("key");
    // Whoever watches a session that is not there is told so, instead of a stream that ends.
    await open.read(key, () => undefined);
    return streamSSE(
      context,
      async (stream) => {
        const ending = new AbortController();
        stream.onAbort(() => ending.abort());
        for await (const pulse of watchSession(open, key, ending.signal))
          await stream.writeSSE({ event: "pulse", data: JSON.stringify(pulse) });
      },
      // A session that is gone ends its events: whoever asks again is told why.
      async () => undefined,
    );
  });
  api.post("/api/sessions/:key/:act", smallBody, async (context) => {
    const act = Object.hasOwn(writeRoutes, context.req.param("act"))
      ? writeRoutes[context.req.param("act")]
      : undefined;
    if (!act) throw new ViewerError("not-found", NOTHING_HERE.message);
    if (!write)
      throw new ViewerError(
        "read-only",
        "This server only reads; start it with `--write` to change sessions.",
      );
    const order = await orderIn(context.req.raw);
    const ref = await open.refOf(context.req.param("key"));
    const stream = streamAct(async (options) => {
      const session = await sessions.write(ref, { beside: context.req.param("act") === "label" });
      try {
        return await act(session, order, options);
      } finally {
        await session.close();
      }
    });
    return context.body(stream, 200, { "content-type": "application/x-ndjson" });
  });

  api.use(compress({ threshold: 1_024 }));
  // With the slash at its end: the page asks for addresses below it.
  app.get(`/${token}/`, (context) =>
    context.body(page.html, 200, {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": page.policy,
    }),
  );
  api.get("/api", (context) => context.json({ write }));
  api.get("/api/sessions", async (context) => context.json(await open.list()));
  api.get("/api/search", async (context) => {
    const query = context.req.query("q") ?? "";
    const hits: object[] = [];
    for await (const { file, ...hit } of sessions.search(query, context.req.raw.signal)) {
      hits.push({ ...hit, key: open.keyOf(hit.sessionId, file) });
      if (hits.length === MOST_HITS) break;
    }
    return context.json(hits);
  });
  api.get("/api/sessions/:key/:what", async (context) => {
    const what = context.req.param("what");
    const read = Object.hasOwn(readRoutes, what) ? readRoutes[what] : undefined;
    if (!read) throw new ViewerError("not-found", NOTHING_HERE.message);
    const answer = await open.read(context.req.param("key"), (reader) =>
      read(reader, (name) => context.req.query(name)),
    );
    return context.body(jsonText(answer), 200, { "content-type": "application/json" });
  });
  return app;
}

const NOTHING_HERE = { code: "not-found", message: "There is nothing at this address." };

/** A change comes as JSON, which no form of another page can send. */
async function orderIn(request: Request): Promise<Order> {
  const isJson = /^application\/json\b/.test(request.headers.get("content-type") ?? "");
  const order: unknown = isJson ? await request.json().catch(ifNoJson) : undefined;
  if (typeof order === "object" && order !== null && !Array.isArray(order)) return order as Order;
  throw new ViewerError("bad-request", "A change is sent as a JSON object, with that content type.");
}

/** What is no JSON is told below; a body that is too long, or cut, ends the request. */
function ifNoJson(error: unknown): undefined {
  if (!(error instanceof SyntaxError)) throw error;
}

/** Bytes of a change: far more than instructions for a summary, or a label. */
const LONGEST_ORDER = 1024 * 1024;

const smallBody = bodyLimit({
  maxSize: LONGEST_ORDER,
  onError: (context) => {
    const { status, error } = failureAnswer(
      new ViewerError("too-large", "A change has at most 1 MiB; send a shorter text."),
    );
    // What is left of the body is not read: the next request needs a connection of its own.
    return context.json({ error }, status, { connection: "close" });
  },
});
