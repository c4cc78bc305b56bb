// The guide to importing, followed by somebody in whose home Claude Code and Codex have worked.
import { join } from "node:path";
import { expect, test } from "vitest";
import { desk, fencesOf, ROOT } from "./desk.ts";

/** What a shell has to know to find that home. */
const AT_HOME = `unset CLAUDE_CONFIG_DIR CODEX_HOME; export HOME="$PWD"\n`;

const claude = (id: string) => `
mkdir -p "$PLACE"
cat > "$PLACE/${id}.jsonl" <<END
{"type":"user","uuid":"${id}-u1","parentUuid":null,"sessionId":"${id}","timestamp":"2026-01-01T00:00:00.000Z","cwd":"$PWD","message":{"role":"user","content":"Which way is up?"}}
{"type":"assistant","uuid":"${id}-a1","parentUuid":"${id}-u1","sessionId":"${id}","timestamp":"2026-01-01T00:00:01.000Z","cwd":"$PWD","message":{"id":"m1","role":"assistant","model":"claude","content":[{"type":"text","text":"That one."}]}}
END
`;

const codex = `
mkdir -p ~/.codex/sessions/2026/01/01
cat > ~/.codex/sessions/2026/01/01/rollout-2026-01-01T00-00-00-33333333-2222-4333-8444-555555555555.jsonl <<END
{"timestamp":"2026-01-01T00:00:00.000Z","type":"session_meta","payload":{"id":"33333333-2222-4333-8444-555555555555","cwd":"/elsewhere","cli_version":"0.125.0"}}
{"timestamp":"2026-01-01T00:00:01.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"And down?"}]}}
END
`;

test("import.md works as written, from its first line to its last", async () => {
  const here = await desk();
  here.type(`${AT_HOME}PLACE=~/.claude/projects/here${claude("11111111-2222-4333-8444-555555555555")}`);
  here.type(`${AT_HOME}PLACE=~/old-laptop/projects${claude("22222222-2222-4333-8444-555555555555")}`);
  here.type(AT_HOME + codex);
  const printed = fencesOf(join(ROOT, "docs/guides/import.md"))
    .filter(({ language }) => language === "sh")
    .map(({ text }) => here.type(AT_HOME + text));
  expect(printed[0]).toMatch(/^created .*Which way is up\?.*created .*And down\?/s);
  expect(printed[1]).toMatch(/session unchanged.*session unchanged.*created .*Which way is up\?/s);
  expect(printed[2]).toContain("Which way is up?");
  expect(printed[3]).toContain("1 session unchanged");
  expect(printed[4]).toContain("That one.");
}, 240_000);
