/** A picture written as an address: `data:image/png;base64,iVBOR…`. */
const DATA_URL = /^data:([^;,]+)(?:;[^;,]+)*;base64,/i;

/** What a base64 `data:` address holds; undefined for every other address. */
export function parseDataUrl(url: string): { mimeType: string; data: string } | undefined {
  const beginning = DATA_URL.exec(url);
  return beginning ? { mimeType: beginning[1]!, data: url.slice(beginning[0].length) } : undefined;
}

/** The opposite of {@link parseDataUrl}. */
export function formatDataUrl(mimeType: string, data: string): string {
  return `data:${mimeType};base64,${data}`;
}
