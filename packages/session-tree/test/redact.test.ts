import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { runInNewContext } from "node:vm";
import { formatLine } from "@espalier/jsonl-stream";
import { custom, message, Redactor, redactEntry, redactText } from "@espalier/session-tree";
import fc from "fast-check";
import { expect, test } from "vitest";
import { innocents, secretSamples, WRAPPINGS } from "./secret-samples.ts";
import { slowUnits } from "./slow-inputs.ts";

/** `count` characters that no shape would reject; put together here, so that no scanner takes this file for a leak. */
const made = (count: number, letters = "aB3dE5gH7jK9mN1pQ") => letters.repeat(9).repeat(9).slice(0, count);
const upper = (count: number) => made(count, "QWERTZ1234YXC");

const SECRETS: readonly [string, string][] = [
  ["anthropic key", `sk-${"ant"}-api03-${made(90)}`],
  ["openai key", `sk-${"proj"}-${made(120)}`],
  ["openai key", `sk-${made(20)}T3Blbk${"FJ"}${made(20)}`],
  ["openrouter key", `sk-${"or"}-v1-${"0123456789abcdef".repeat(4)}`],
  ["github token", `gh${"p"}_${made(36)}`],
  ["github token", `github_${"pat"}_${made(22)}_${made(59)}`],
  ["gitlab token", `gl${"pat"}-${made(20)}`],
  ["aws key", `AK${"IA"}${upper(16)}`],
  ["slack token", `xo${"xb"}-${made(11)}-${made(11)}-${made(24)}`],
  ["google key", `AI${"za"}${made(35)}`],
  ["npm token", `np${"m_"}${made(36)}`],
  ["stripe key", `sk_${"live"}_${made(24)}`],
  ["hugging face token", `h${"f_"}${made(34)}`],
  ["token", `ey${"J"}${made(30)}.ey${"J"}${made(60)}.${made(43)}`],
  [
    "private key",
    `-----BEGIN RSA ${"PRIVATE"} KEY-----\n${made(64)}\n${made(64)}\n-----END RSA ${"PRIVATE"} KEY-----`,
  ],
  ["private key", `-----BEGIN ${"PRIVATE"} KEY-----\\n${made(64)}\\n${made(30)}`],
];

/** What looks a little like a key and is none. */
const HARMLESS: readonly string[] = [
  "sk-learn, sk-ant-hill and sk-proj-ect are words; sk-1234 is no key",
  "ghp_ is how GitHub's tokens begin; gho_short is none, nor is github_pat_",
  "npm_config_registry, npm_lifecycle_event, npm_package_name",
  "The key AKIAIOSFODNN7EXAMPLE stands in the documentation of AWS; AKIA alone is nothing",
  "git 3f2c1b0a9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a and sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
  "0b9c1c66-3d3c-4a58-9c3e-0d4e51f9a5a1 and V1StGXR8_Z5jdHi6B-myT",
  "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAu1SU1LfVLPHCozMxH2Mo\n-----END PUBLIC KEY-----",
  "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ\n-----END CERTIFICATE-----",
  "Grep for BEGIN PRIVATE KEY and for -----BEGIN PRIVATE KEY----- in the repository",
  "The header is `Authorization: Bearer <token>`; a bearer of good news; Bearer $TOKEN",
  'eyJhbGciOiJIUzI1NiJ9 is {"alg":"HS256"} in base64',
  "aws_secret_access_key is read from the environment; AWS_SECRET_ACCESS_KEY=$SECRET",
  "xoxo, and xoxb- is where Slack's begin",
  "hf_hub_download(repo_id), hf_token, AIza is a beginning",
  "https://user@example.org/path?token=short",
  `data:image/png;base64,${Buffer.from(made(300)).toString("base64")}`,
  "pk_live_ is public, sk_live_ is not; Stripe's own sample is sk_test_4eC39HqLyjWDarjtT1zdp7dc",
];

test("every well-known key is replaced by its type, at any position in a text", () => {
  for (const [name, secret] of SECRETS)
    for (const text of [
      secret,
      `The key is ${secret}.`,
      `KEY="${secret}"\nand so on`,
      `{"key":"${secret}"}`,
    ]) {
      const redacted = redactText(text);
      expect(redacted, name).toContain(`[redacted ${name}]`);
      expect(redacted.includes(secret.slice(-12)), name).toBe(false);
      expect(redactText(redacted)).toBe(redacted);
    }
  const header = redactText(`curl -H 'Authorization: Bearer ${made(40)}' https://example.org`);
  expect(header).toBe("curl -H 'Authorization: Bearer [redacted bearer token]' https://example.org");
  const secret = redactText(`aws_secret_access_key = ${made(40)}\n`);
  expect(secret).toBe("aws_secret_access_key = [redacted aws secret]\n");
});

test.each(WRAPPINGS)("documented formats are found %s, for every seed", (_wrapping, wrap) => {
  for (let seed = 1; seed <= 20; seed++) {
    const missed = secretSamples(seed).filter(({ written, secret }) => {
      const redacted = redactText(wrap(written));
      expect(redactText(redacted)).toBe(redacted);
      const left = unescaped(redacted);
      return !redacted.includes("[redacted ") || left.includes(secret) || left.includes(secret.slice(-12));
    });
    expect(missed.map(({ issuer }) => issuer)).toEqual([]);
  }
});

/** A text as it reads when percent-encoding and escapes are gone. */
function unescaped(text: string): string {
  const read = (percent: string) => decodeURIComponent(percent.replace(/%(?![0-9A-F]{2})/g, "%25"));
  return `${text}\n${text.replaceAll(/\\+"/g, '"').replaceAll(/\\+n/g, "\n")}\n${read(read(text))}`;
}

test("text around a key stays the same: colours, escapes, names, suffixes", () => {
  const key = `gh${"p"}_${made(36)}`;
  for (const [before, after] of [
    ["\u001b[32m", "\u001b[0m rest"],
    ["a\\n", "\\nb \\u00e9"],
    ["?token%3D", "%26next%3D%C3%A9"],
    ["&quot;", "&quot; &amp;"],
    ["my_", "."],
    ["-", ""],
  ])
    expect(redactText(`${before}${key}${after}`)).toBe(`${before}[redacted github token]${after}`);
  const parted = `gh${"p"}_\u001b[m\u001b[K${made(36)}\u001b[0m!`;
  expect(redactText(parted)).toBe("[redacted github token]\u001b[0m!");
});

test("placeholders, branches, hashes, public keys and code stay the same, for every seed", () => {
  for (let seed = 1; seed <= 20; seed++)
    for (const text of innocents(seed)) expect(redactText(text)).toBe(text);
});

test("property: a key is found behind and before any words, blanks and marks", () => {
  // The second has the shortest run of letters and digits that is searched.
  const keys = fc.constantFrom(
    ["", `gh${"p"}_${made(36)}`, "github token"] as const,
    ["secret=", made(16), "secret"] as const,
  );
  const part = fc.oneof(
    fc.stringMatching(/^[a-z_~-]{1,40}$/),
    fc.stringMatching(/^[A-Z0-9]{1,15}$/),
    fc.stringMatching(/^[^\w~]{1,3}$/),
    fc.constantFrom("é", "\n", "\ud83d\ude00"),
  );
  const parts = fc.array(part, { maxLength: 12 });
  fc.assert(
    fc.property(parts, keys, parts, (before, [name, key, kind], after) => {
      const [start, end] = [`${before.join(" ")} ${name}`, ` ${after.join(" ")}`];
      expect(redactText(start + key + end)).toBe(`${start}[redacted ${kind}]${end}`);
    }),
    { numRuns: 1_000 },
  );
});

test("the end of a private key is found without its beginning, also with line numbers", () => {
  const end = `-----END OPENSSH ${"PRIVATE"} KEY-----`;
  const lines = [made(70), made(70), `${made(11)}=`, end];
  expect(redactText(`$ tail -4 key\n${lines.join("\n")}\n$`)).toBe(
    "$ tail -4 key\n[redacted private key]\n$",
  );
  const numbered = lines.map((line, at) => `${at + 31}\t${line}`).join("\n");
  expect(redactText(`${numbered}\n35\t`)).toBe("31\t[redacted private key]\n35\t");
  const block = `-----BEGIN CERTIFICATE-----\n${made(64)}\n-----END CERTIFICATE-----`;
  expect(redactText(`${block}\n${end}`)).toBe(`${block}\n${end}`);
});

test("a key without a long run of letters and digits is found by its name or form alone", () => {
  const parts = made(72, "kX9pQ7zM2").replace(/.{8}/g, "$&/");
  const password = made(12, "k9!Xp-2mzQ");
  for (const [name, text] of [
    ["password", `postgres://ada:${password}@db1/x`],
    ["credentials", "Authorization: Basic QWRhOjEyMw=="],
    ["credentials", "Authorization: basic+QWRhOjEyMw=="],
    ["credentials", "AUTHORIZATION: BASIC QWRhOjEyMw=="],
    ["private key", `-----BEGIN ${"PRIVATE"} KEY-----\n${parts}`],
    ["private key", `-----BEGIN+${"PRIVATE"}+KEY-----\n${parts}`],
    ["private key", `Private-Lines: 4\n${parts}`],
    ["aws secret", `secret-key: ${parts.slice(0, 40)}`],
    ["aws secret", `Secret_Key: ${parts.slice(0, 40)}`],
    ["aws secret", `secret-access-key: ${parts.slice(0, 40)}`],
    ["aws secret", `secretAccessKey: ${parts.slice(0, 40)}`],
    ["aws secret", `SECRET_KEY=${parts.slice(0, 40)}`],
    ["password", `password: ${password}`],
    ["password", `PASSWORD=${password}`],
    ["password", `passwd: ${password}`],
    ["password", `passphrase: ${password}`],
    ["password", `PASSPHRASE: ${password}`],
    ["password", `pwd=${password}`],
    ["password", `PWD=${password}`],
    ["azure secret", `aB18Q~${made(36, "kX9.pQ7zM.2")}`],
    ["password", `curl -u ada:${password}`],
    ["password", `mysql -p${password}`],
  ] as const)
    for (const [before, after] of [
      ["", ""],
      ["see ", ".\n"],
      ["w @ ~ k\n", " phrase"],
    ])
      expect(redactText(`${before}${text}${after}`), text).toContain(`[redacted ${name}]`);
});

test("text that only resembles a key stays the same", () => {
  for (const text of HARMLESS) expect(redactText(text)).toBe(text);
});

test("no ordinary text is changed", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme", maxLength: 300 }), (text) => {
      expect(redactText(text)).toBe(text);
    }),
  );
});

test("a text that is built to be slow is read to its end", () => {
  const key = `gh${"p"}_${made(36)}`;
  for (const unit of slowUnits)
    expect(redactText(`${unit.repeat(20_000)}\n${key}\n`), unit).not.toContain(key);
});

const corpus = ["../shared/corpus", "../../../shared/corpus"]
  .map((path) => resolve(path))
  .find((path) => existsSync(path));

test.skipIf(!corpus)(
  "in real sessions, only the line with a private key is changed (skipped without the corpus)",
  () => {
    const files = readdirSync(corpus!, { recursive: true, withFileTypes: true }).filter(({ name }) =>
      name.endsWith(".jsonl"),
    );
    expect(files.length).toBeGreaterThan(0);
    for (const file of files) {
      const text = readFileSync(join(file.parentPath, file.name), "utf8");
      for (const line of text.split("\n").slice(0, -1))
        expect(redactText(line) === line || line.includes("PRIVATE KEY BLOCK"), file.name).toBe(true);
    }
  },
);

const SECRET = SECRETS[0]![1];

const redactor = new Redactor(redactText);

test("ids, names, signatures and images stay byte for byte, and changed thinking loses its signature", () => {
  const signed = { type: "thinking", thinking: "Plain.", thinkingSignature: SECRET };
  const call = {
    type: "toolCall",
    id: SECRET,
    name: "bash",
    arguments: { command: `echo ${SECRET}`, picture: { mimeType: "image/png", data: SECRET } },
    thoughtSignature: SECRET,
  };
  const picture = { type: "image", data: SECRET, mimeType: "image/png" };
  const thought = { type: "thinking", thinking: `The key ${SECRET}`, thinkingSignature: "c2lnbmVk" };
  const entry = {
    ...message.of({ message: { role: "assistant", content: [signed, thought, call, picture] } as never }),
    id: SECRET,
    parentId: SECRET,
  };
  const redacted = redactEntry(entry, redactor);
  expect(redacted).toEqual({
    ...entry,
    message: {
      role: "assistant",
      content: [
        signed,
        { type: "thinking", thinking: "The key [redacted anthropic key]" },
        { ...call, arguments: { ...call.arguments, command: "echo [redacted anthropic key]" } },
        picture,
      ],
    },
  });
  expect((redacted.message as { content: unknown[] }).content[0]).toBe(signed);
});

test("keys are found in names of members, tools and types, and in all fields of a tool", () => {
  const [anthropic, github] = [SECRETS[0]![1], SECRETS[4]![1]];
  const other = `gh${"p"}_${made(36, "zY8xW6vU4tS2")}`;
  const given = {
    [github]: 1,
    [other]: 2,
    signature: anthropic,
    encrypted_content: anthropic,
    id: anthropic,
  };
  const call = { type: "toolCall", id: "c1", name: github, arguments: given };
  const native = {
    format: "anthropic",
    value: { type: "tool_use", id: anthropic, name: github, input: given },
  };
  const entry = {
    ...message.of({
      message: {
        role: "assistant",
        content: [call, { type: `x.${github}`, signature: anthropic, native }],
      } as never,
    }),
    type: "message",
    [github]: true,
  };
  const redacted = redactEntry(entry as never, redactor) as unknown as typeof entry;
  const text = JSON.stringify(redacted);
  expect(text).not.toContain(github);
  expect(text).not.toContain(other);
  const blocks = (redacted as never as { message: { content: Record<string, unknown>[] } }).message.content;
  const hidden = "[redacted anthropic key]";
  const treated = {
    redacted_github_token: 1,
    redacted_github_token_2: 2,
    signature: hidden,
    encrypted_content: hidden,
    id: hidden,
  };
  expect(blocks[0]).toEqual({ ...call, name: "redacted_github_token", arguments: treated });
  // What a provider signed or named stays, in its place.
  expect(blocks[1]).toEqual({
    type: "x_redacted_github_token",
    signature: anthropic,
    native: {
      ...native,
      value: { type: "tool_use", id: anthropic, name: "redacted_github_token", input: treated },
    },
  });
  const result = custom.of({ customType: github, data: { signature: anthropic } });
  expect(redactEntry(result, redactor)).toMatchObject({
    customType: "redacted_github_token",
    data: { signature: hidden },
  });
});

test("members whose names hold keys stay apart from each other and from all other members, also thousands", () => {
  const keys = Array.from({ length: 3_000 }, (_, at) => `gh${"p"}_${made(36, "zY8xW6vU4tS2")}${at}`);
  const given = {
    redacted_github_token_2: "taken",
    ...Object.fromEntries(keys.map((key, at) => [key, at])),
    redacted_github_token: "taken too",
  };
  const redacted = redactor.deep(given) as Record<string, unknown>;
  expect(Object.values(redacted)).toEqual(Object.values(given));
  expect(redacted).toMatchObject({ redacted_github_token_2: "taken", redacted_github_token_3: 0 });
  expect(redactor.deep(redacted)).toBe(redacted);
});

test("names without a key are not passed to a custom function", () => {
  const entry = custom.of({ customType: "test", data: { member_of_some_length: "text" } });
  const shouting = new Redactor((text) => text.toUpperCase());
  expect(redactEntry(entry, shouting)).toMatchObject({
    customType: "test",
    data: { member_of_some_length: "TEXT" },
  });
});

test("a value without secrets is returned as the same object", () => {
  const harmless = custom.of({ customType: "test", data: { a: [1, { b: "text" }, null, true] } });
  expect(redactEntry(harmless, redactor)).toBe(harmless);
});

test("a block that only claims to be an image is searched", () => {
  const data = { mimeType: "text/plain", data: SECRET, signature: { of: SECRET } };
  expect(JSON.stringify(redactor.deep(data))).not.toContain(SECRET);
});

test("content that is nested too deeply is left out, or left to later validation; the stack does not overflow", () => {
  const deep = JSON.parse(`${'{"a":['.repeat(50_000)}"${SECRET}"${"]}".repeat(50_000)}`) as object;
  const circle: { self?: unknown } = {};
  circle.self = circle;
  for (const value of [deep, circle]) {
    const text = JSON.stringify(redactor.deep(value));
    expect(text).not.toContain(SECRET);
    expect(text).toContain("nested too deeply");
    expect(new Redactor(redactText, { tooDeep: (left) => left }).deep(value)).toBe(value);
  }
  const less = (text: string) => JSON.parse(`${'{"a":['.repeat(400)}"${text}"${"]}".repeat(400)}`) as object;
  const harmless = less("nothing");
  expect(redactor.deep(harmless)).toBe(harmless);
  expect(JSON.stringify(redactor.deep(less(SECRET)))).toMatch(/\[redacted anthropic key\]/);
  expect(JSON.stringify(redactor.deep(less(SECRET)))).not.toContain(SECRET);
  expect(redactor.deep([SECRET])).toEqual(["[redacted anthropic key]"]);
});

test("every value that can be written is redacted, also an object of another realm", () => {
  const [, secret] = SECRETS[0]!;
  const data: unknown = runInNewContext(`({ deep: [{ key: ${JSON.stringify(secret)} }] })`);
  const redacted = redactEntry(custom.of({ customType: "test", data }), new Redactor(redactText));
  expect(formatLine(redacted)).not.toContain(secret);
});
