import { useMemo, useState } from "preact/hooks";
import { formatTokens } from "./format-numbers.ts";
import { codeMarkup, markdownMarkup } from "./safe-markup.ts";
import { visibleControls } from "./visible-controls.ts";

/** What somebody said, as markdown. */
export function Markdown({ text }: { text: string }) {
  const html = useMemo(() => markdownMarkup(text), [text]);
  if (html === undefined) return <PlainText text={text} />;
  return <div class="markdown" dir="auto" dangerouslySetInnerHTML={{ __html: html }} />;
}

/** Characters of a text that are shown at first, and then with each wish for more. */
const FIRST_SHOWN = 4_000;
const MORE = 200_000;

interface PlainTextProps {
  text: string;
  /** The name of a language, for its colours. */
  language?: string | undefined;
}

/** A text as it is: what a tool said, a file, a command. Long ones in parts. */
export function PlainText({ text, language }: PlainTextProps) {
  const [shown, setShown] = useState(FIRST_SHOWN);
  const part = text.length > shown ? text.slice(0, shown).toWellFormed() : text;
  const html = useMemo(
    () => (language === undefined ? undefined : codeMarkup(part, language)),
    [part, language],
  );
  return (
    <>
      {html === undefined ? (
        <pre class="plain">{visibleControls(part)}</pre>
      ) : (
        <pre class="plain hljs" dangerouslySetInnerHTML={{ __html: html }} />
      )}
      {text.length > shown && (
        <button type="button" class="more" onClick={() => setShown(shown + MORE)}>
          Show more of {formatTokens(text.length)} characters
        </button>
      )}
    </>
  );
}
