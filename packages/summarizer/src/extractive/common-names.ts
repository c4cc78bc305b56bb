/**
 * Names that stand in every session of their kind and that nobody has to be told: what languages bring along. Taken
 * from the languages' own references, not from any session.
 */
const NAMES = `
  addEventListener appendChild arrayBuffer charCodeAt clearInterval clearTimeout codePointAt concat
  createElement decodeURIComponent defineProperty encodeURIComponent endsWith findIndex findLast flatMap forEach
  fromEntries getElementById getOwnPropertyNames getTime hasOwnProperty indexOf innerHTML isArray isFinite isInteger
  isNaN lastIndexOf localeCompare matchAll padEnd padStart parseFloat parseInt preventDefault querySelector
  removeChild removeEventListener replaceAll requestAnimationFrame setInterval setTimeout startsWith stopPropagation
  textContent toFixed toISOString toLocaleString toLowerCase toString toUpperCase trimEnd trimStart useState
  useEffect useMemo useRef useCallback valueOf TypeError RangeError SyntaxError ReferenceError AbortController
  AbortSignal ArrayBuffer DataView TextDecoder TextEncoder Uint8Array WeakMap WeakSet JavaScript TypeScript
  AttributeError ImportError IndexError KeyError NameError NotImplementedError OSError RuntimeError StopIteration
  ValueError ZeroDivisionError FileNotFoundError isinstance issubclass setattr getattr hasattr staticmethod
  classmethod __init__ __main__ __name__ __file__ __all__ __repr__ __str__ __enter__ __exit__
  StringBuilder IOException NullPointerException IllegalArgumentException printStackTrace hashCode toArray
  HashMap BTreeMap HashSet PathBuf unwrap_or as_str to_string to_owned into_iter
  UTF-8 utf-8 built-in read-only re-render re-run
`;
/** Words of queries, and words that tools shout. They are written large, but are no names. */
const SHOUTS = `
  ALTER BEGIN BUILD CASCADE COMMIT CONSTRAINT CREATE DELETE DETAIL DISTINCT EXISTS FOREIGN GROUP HAVING INDEX INNER
  INSERT LIMIT ORDER OUTER PRIMARY REFERENCES RETURNING ROLLBACK SELECT STATEMENT TABLE TRUNCATE UNION UNIQUE UPDATE
  VALUES VARCHAR WHERE
  DEBUG ERROR ERRORS FAILED FAILURE FATAL PASSED STATUS SUCCESS SUCCESSFUL TRACE WARNING WARNINGS SKIPPED FALSE
  UNDEFINED IMPORTANT NEVER ALWAYS EXPORT IMPORT CLASS CONST HTTPS
`;

const COMMON = new Set(NAMES.trim().split(/\s+/));
const SHOUTED = new Set(SHOUTS.trim().split(/\s+/));

export function isCommonName(name: string): boolean {
  return COMMON.has(name);
}

export function isShout(word: string): boolean {
  return SHOUTED.has(word);
}
