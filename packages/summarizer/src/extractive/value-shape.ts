/** Colours, addresses, versions, numbers with units, error codes. */
const VALUES = [
  /^#[0-9a-fA-F]{6}(?:[0-9a-fA-F]{2})?\b/,
  /^(?:[a-z][\w.-]*|\d{1,3}(?:\.\d{1,3}){3}):\d{2,5}$/,
  /^\d{1,3}(?:\.\d{1,3}){3}$/,
  /^v?\d+\.\d+\.\d+(?:-[\w.]+)?$/,
  /^\d+(?:\.\d+)?(?:%|ms|s|min|h|d|px|rem|em|k|K|M|G|KB|MB|GB|TB|kB|KiB|MiB|GiB|Hz|kHz|MHz|GHz|x)$/,
  /^(?:TS|E|ERR|CVE|RFC|HTTP)-?\d{2,}(?:-\d+)?$/,
];
/** A commit or request id: without letters it would be a number, without digits a word. */
const HEX_ID = /^(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}$/;

/** The value that a token is, without the punctuation around it. */
export function valueIn(token: string): string | undefined {
  const bare = token.replace(/[.,:;/+-]+$/, "").replace(/^[:./+-]+/, "");
  if (bare.length < 2 || !/\d/.test(bare)) return undefined;
  for (const value of VALUES) {
    const match = value.exec(bare);
    if (match !== null) return match[0];
  }
  return HEX_ID.test(bare) ? bare : undefined;
}
