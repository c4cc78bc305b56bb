// Serves the page and its chat at http://127.0.0.1:3000/?chat=ada, once the page is built:
// npx esbuild page.tsx --bundle --format=esm --jsx=automatic --outfile=page.js
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { Readable } from "node:stream";
import { json } from "node:stream/consumers";
import type { ReadableStream } from "node:stream/web";
import { answer, read, resume, sessions, show } from "./chat.ts";

const page = readFileSync(new URL("page.js", import.meta.url), "utf8");
const html = `<!doctype html><meta charset="utf-8"><title>Garden</title><link rel="icon" href="data:,">
<style>
  main { max-width: 40rem; margin: 2rem auto; font: 1rem/1.5 system-ui; }
  article { margin: 0.5rem 0; padding: 0.5rem 1rem; border-radius: 0.5rem; }
  .user { background: #eef2ea; }
  p { margin: 0.25rem 0; }
  code { color: #667; }
  form { display: flex; gap: 0.5rem; }
  input { flex: 1; font: inherit; }
  .versions button { margin: 0 0.5rem; }
</style>
<div id="chat"></div><script type="module" src="/page.js"></script>`;
const typed = (body: string, type: string) => new Response(body, { headers: { "content-type": type } });

async function respond(method: string, path: string, body: () => Promise<unknown>): Promise<Response> {
  if (path === "/") return typed(html, "text/html");
  if (path === "/page.js") return typed(page, "text/javascript");
  const [, id, act = ""] = /^\/api\/chat\/([\w-]+)(\/\w+)?$/.exec(path) ?? [];
  if (id === undefined) return new Response("Not found\n", { status: 404 });
  const { messages, version } = (method === "POST" ? await body() : {}) as {
    messages?: unknown;
    version?: string;
  };
  if (`${method} ${act}` === "POST ") return answer(id, messages);
  if (`${method} ${act}` === "POST /version") return show(id, String(version));
  return act === "/stream" ? resume(id) : read(id);
}

const server = createServer(async (request, response) => {
  try {
    const { pathname } = new URL(request.url ?? "/", "http://localhost");
    const { status, headers, body } = await respond(request.method ?? "GET", pathname, () => json(request));
    response.writeHead(status, Object.fromEntries(headers));
    if (body)
      Readable.fromWeb(body as ReadableStream)
        .on("error", () => response.destroy())
        .pipe(response);
    else response.end();
  } catch (error) {
    console.error(error);
    response.writeHead(500).end("Send it again.\n");
  }
});
server.listen(Number(process.env["PORT"] ?? 3000), "127.0.0.1", () => console.log(server.address()));

process.once("SIGTERM", () => {
  server.close();
  void sessions.close();
});
