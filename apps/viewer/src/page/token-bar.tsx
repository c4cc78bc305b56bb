import { TOKEN_KINDS, type TokenCounts, type TokenKind } from "../model/token-kinds.ts";
import { formatTokens } from "./format-numbers.ts";

const NAMES: Readonly<Record<TokenKind, string>> = {
  summary: "summaries",
  system: "system",
  user: "user",
  answer: "answers",
  thinking: "thinking",
  call: "tool calls",
  result: "tool results",
  image: "pictures",
};

interface TokenBarProps {
  tokens: TokenCounts;
  /** Tokens that the model can read; the bar is as long as that, or as what there is. */
  window: number;
  /** Whether the kinds are named below. */
  named?: boolean;
}

/** What a context is made of. */
export function TokenBar({ tokens, window, named = false }: TokenBarProps) {
  const total = tokens.reduce((sum, count) => sum + count, 0);
  const whole = Math.max(total, window, 1);
  const parts = TOKEN_KINDS.map((kind, at) => ({ kind, count: tokens[at] ?? 0 })).filter(
    ({ count }) => count > 0,
  );
  return (
    <div class="token-bar">
      <div
        class="bar"
        role="img"
        aria-label={`${formatTokens(total)} of ${formatTokens(window)} tokens: ${parts
          .map(({ kind, count }) => `${NAMES[kind]} ${formatTokens(count)}`)
          .join(", ")}`}
      >
        {parts.map(({ kind, count }) => (
          <span key={kind} class={`part fill-${kind}`} style={{ width: `${(count / whole) * 100}%` }} />
        ))}
        {total > window && <span class="window-mark" style={{ left: `${(window / whole) * 100}%` }} />}
      </div>
      {named && (
        <ul class="legend">
          {parts.map(({ kind, count }) => (
            <li key={kind}>
              <span class={`swatch fill-${kind}`} /> {NAMES[kind]} <b>{formatTokens(count)}</b>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
