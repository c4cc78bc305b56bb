import { writeFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { openSession } from "@espalier/engine";
import { htmlOf } from "@espalier/viewer";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DEMO, Scratch } from "./scratch.ts";

const scratch = new Scratch();
const page = scratch.path("page.html");
beforeAll(() =>
  writeFileSync(page, '<!--policy--><p>before</p><!--session--><script type="module">1</script>'),
);
afterAll(() => scratch.end());

async function exported(
  ...[session, options]: Parameters<typeof htmlOf>
): Promise<{ html: string; entries: number }> {
  const pieces = await htmlOf(session, options);
  let html = "";
  for (let next = pieces.next(); ; next = pieces.next()) {
    if (next.done) return { html, entries: next.value };
    html += next.value;
  }
}

const dataIn = (html: string): string =>
  gunzipSync(Buffer.from(/id="session">([^<]*)</.exec(html)![1]!, "base64")).toString();

test("a running session and a reopened one give the same file", async () => {
  const file = scratch.copy(DEMO, "live.jsonl");
  const live = await openSession({ file });
  await live.appendMessages([{ role: "user", content: "</script><!-- a word more" }]);
  const first = await exported(live, { page });
  await live.close();
  const reopened = await openSession({ file }, { mode: "read" });
  expect(await exported(reopened, { page })).toEqual(first);
  expect(first.entries).toBe(reopened.tree.length);
  expect(first.html.match(/<\/script>/g)).toHaveLength(2);
  expect(dataIn(first.html)).toContain("a word more");
  await reopened.close();
});

test("redacted text is not in the file", async () => {
  const session = await openSession({ file: DEMO }, { mode: "read" });
  const { html } = await exported(session, {
    page,
    redact: (text) => text.replaceAll("tidepool", "[project]"),
  });
  expect(dataIn(html)).toContain("[project]");
  expect(dataIn(html)).not.toContain("tidepool");
  await session.close();
});

test("the file loads nothing and sends nothing", async () => {
  const session = await openSession({ file: DEMO }, { mode: "read" });
  const { html } = await exported(session, { page });
  expect(html).toMatch(
    /^<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'sha256-/,
  );
  expect(html).toContain("connect-src 'none'");
  await session.close();
});

test("a missing page is reported by name", async () => {
  const session = await openSession({ file: DEMO }, { mode: "read" });
  await expect(htmlOf(session, { page: scratch.path("missing.html") })).rejects.toMatchObject({
    code: "page",
  });
  await session.close();
});
