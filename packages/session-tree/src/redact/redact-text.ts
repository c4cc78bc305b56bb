/** A shape that only a secret has, and what is written in its place. */
interface SecretShape {
  name: string;
  /** Whatever a first group matches stays. */
  pattern: RegExp;
}

/**
 * Well-known shapes of keys: a beginning that their issuer chose for being recognised, and the length that it gives
 * them. Nothing here guesses from randomness, and no word of prose, hash, id or encoded picture has these shapes.
 */
const SHAPES: readonly SecretShape[] = [
  { name: "anthropic key", pattern: /\bsk-ant-[A-Za-z0-9_-]{20,}/g },
  { name: "openai key", pattern: /\bsk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,}/g },
  { name: "openai key", pattern: /\bsk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}\b/g },
  { name: "openrouter key", pattern: /\bsk-or-v1-[0-9a-f]{64}\b/g },
  { name: "github token", pattern: /\bgh[pousr]_[A-Za-z0-9]{36,}\b/g },
  { name: "github token", pattern: /\bgithub_pat_[A-Za-z0-9_]{60,}\b/g },
  { name: "gitlab token", pattern: /\bglpat-[A-Za-z0-9_-]{20,}/g },
  // The keys of AWS's own documentation end in EXAMPLE.
  { name: "aws key", pattern: /\b(?:AKIA|ASIA)(?![A-Z0-9]{9}EXAMPLE)[A-Z0-9]{16}\b/g },
  {
    name: "aws secret",
    pattern: /(\baws_secret_access_key\b["']?\s*[:=]\s*["']?)[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])/gi,
  },
  { name: "slack token", pattern: /\bxox[abeoprs]-[0-9A-Za-z]{8,}(?:-[0-9A-Za-z]+)+/g },
  { name: "google key", pattern: /\bAIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])/g },
  { name: "npm token", pattern: /\bnpm_[A-Za-z0-9]{36}\b/g },
  { name: "stripe key", pattern: /\b[rs]k_live_[A-Za-z0-9]{20,}\b/g },
  { name: "hugging face token", pattern: /\bhf_[A-Za-z0-9]{34}\b/g },
  { name: "token", pattern: /\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{16,}/g },
  {
    name: "bearer token",
    pattern: /(\bauthorization["']?\s*[:=]\s*["']?bearer\s+)[A-Za-z0-9._~+/-]{20,}=*/gi,
  },
  // Also one that was cut, and one whose line ends are written as \n.
  {
    name: "private key",
    pattern:
      /-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:(?:\\n|\s)+[A-Za-z-]+: [^\n\\]*){0,3}[A-Za-z0-9+/=\s\\]{64,}(?:-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----)?/g,
  },
];

/** What every shape has in it: nearly all texts have none, and are looked at once. */
const HINTS =
  /sk-|gh[pousr]_|github_pat_|glpat-|AKIA|ASIA|secret_access_key|xox|AIza|npm_|k_live_|hf_|eyJ|bearer|PRIVATE KEY/i;

/** The text with every well-known key replaced by `[redacted <what it was>]`. Doing it again changes nothing. */
export function redactText(text: string): string {
  if (!HINTS.test(text)) return text;
  let redacted = text;
  for (const { name, pattern } of SHAPES)
    redacted = redacted.replace(pattern, (_match, ...groups: unknown[]) => {
      const kept = typeof groups[0] === "string" ? groups[0] : "";
      return `${kept}[redacted ${name}]`;
    });
  return redacted;
}
