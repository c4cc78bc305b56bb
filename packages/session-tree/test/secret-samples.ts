// Secrets of every kind, what people wrap them in, and what only looks like one. Everything is put together at run time,
// of pieces and of chance with a seed, so that nothing in the repository looks like a key.

/** A secret as its issuer writes it, and what of it must not be left. */
interface SecretSample {
  issuer: string;
  written: string;
  /** The secret itself: `written`, but for what tells only where it belongs. */
  secret: string;
}

const LOWER = "abcdefghijklmnopqrstuvwxyz";
const UPPER = LOWER.toUpperCase();
const DIGITS = "0123456789";
const ALNUM = UPPER + LOWER + DIGITS;
const HEX = `${DIGITS}abcdef`;
const URL64 = `${ALNUM}_-`;
const BASE64 = `${ALNUM}+/`;
const BASE36 = DIGITS + LOWER;
const CAPITALS = DIGITS + UPPER;

/** Characters of an alphabet by chance; the same for the same seed. */
function chance(seed: number): (length: number, alphabet?: string) => string {
  let state = seed;
  return (length, alphabet = ALNUM) => {
    let text = "";
    for (let at = 0; at < length; at++) {
      state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0;
      const mixed = Math.imul(state ^ (state >>> 13), 0x297a2d39);
      text += alphabet[((mixed ^ (mixed >>> 16)) >>> 0) % alphabet.length]!;
    }
    // An end that is a sign would be trimmed by whoever compares.
    return /[A-Za-z0-9]$/.test(text) ? text : `${text.slice(0, -1)}7`;
  };
}

/** Formats as their issuers document them. */
export function secretSamples(seed: number): SecretSample[] {
  const some = chance(seed);
  const uuid = () => [8, 4, 4, 4, 12].map((length) => some(length, HEX)).join("-");
  const plain = (issuer: string, ...pieces: string[]): SecretSample => {
    const written = pieces.join("");
    return { issuer, written, secret: written };
  };
  const inside = (issuer: string, before: string, secret: string, after = ""): SecretSample => ({
    issuer,
    written: before + secret + after,
    secret,
  });
  return [
    plain("Anthropic", "sk-", "ant-", "api03-", some(93, URL64), "AA"),
    plain("Anthropic, admin", "sk-", "ant-", "admin01-", some(93, URL64), "AA"),
    plain("OpenAI", "sk-", some(20), "T3Blbk", "FJ", some(20)),
    plain("OpenAI, project", "sk-", "proj-", some(74, URL64), "T3Blbk", "FJ", some(74, URL64)),
    plain("OpenRouter", "sk-", "or-", "v1-", some(64, HEX)),
    plain("DeepSeek", "sk-", some(32, HEX)),
    plain("Groq", "gs", "k_", some(52)),
    plain("xAI", "xa", "i-", some(80)),
    plain("Perplexity", "pp", "lx-", some(48)),
    plain("Replicate", "r", "8_", some(37)),
    plain("Hugging Face", "h", "f_", some(34, UPPER + LOWER)),
    plain("AWS", "AK", "IA", some(16, `${UPPER}234567`)),
    plain("AWS, temporary", "AS", "IA", some(16, `${UPPER}234567`)),
    inside("AWS, secret in JSON", `"SecretAccess${"Key"}": "`, some(40, BASE64), '"'),
    inside("AWS, secret in a file", `aws_secret_access_${"key"} = `, some(40, BASE64)),
    inside("AWS, session", `AWS_SESSION_${"TOKEN"}=`, `IQoJb3JpZ2${"lu"}X2Vj${some(300, BASE64)}`),
    plain("Google", "AI", "za", some(35, URL64)),
    plain("Google, client secret", "GOC", "SPX-", some(28, URL64)),
    plain("Google, access", "ya", "29.", "a0A", some(120, URL64)),
    plain("Google, refresh", "1/", "/0", some(60, URL64)),
    plain("Azure, application", some(3), "8", "Q~", some(34, `${ALNUM}_-`)),
    inside(
      "Azure, storage",
      `AccountName=store;Account${"Key"}=`,
      `${some(86, BASE64)}==`,
      ";EndpointSuffix=core",
    ),
    plain("DigitalOcean", "dop", "_v1_", some(64, HEX)),
    plain("Databricks", "da", "pi", some(32, HEX)),
    plain("Heroku", "HRKU", "-AA", some(58, URL64)),
    plain("Fly", "fm", "2_", some(160, BASE64)),
    plain("GitHub", "gh", "p_", some(36)),
    plain("GitHub, app", "gh", "s_", some(36)),
    plain("GitHub, fine-grained", "github_", "pat_", some(22), "_", some(59)),
    plain("GitLab", "gl", "pat-", some(20, URL64)),
    plain("GitLab, runner", "gl", "rt-", some(20, URL64)),
    plain("Atlassian", "ATA", "TT3", some(180, URL64), "=", some(8, CAPITALS)),
    plain("npm", "np", "m_", some(36)),
    plain("PyPI", "py", "pi-", "AgEIcHlwaS5vcmc", some(150, URL64)),
    plain("RubyGems", "ruby", "gems_", some(48, HEX)),
    plain("Docker", "dckr", "_pat_", some(27, URL64)),
    plain("CircleCI", "CCI", "PAT_", some(22), "_", some(40, HEX)),
    plain("Slack, bot", "xo", "xb-", some(12, DIGITS), "-", some(13, DIGITS), "-", some(24)),
    plain("Slack, app", "xa", "pp-1-A", some(10, CAPITALS), "-", some(13, DIGITS), "-", some(64, HEX)),
    inside(
      "Slack, webhook",
      "https://hooks.slack.com/services/",
      `T${some(10, CAPITALS)}/B${some(10, CAPITALS)}/${some(24)}`,
    ),
    plain("Discord, bot", "MT", some(24), ".G", some(5), ".", some(38, URL64)),
    inside("Discord, webhook", `https://discord.com/api/webhooks/${some(18, "123456789")}/`, some(68, URL64)),
    plain("Telegram", some(10, "123456789"), ":A", "A", some(33, URL64)),
    plain("Stripe", "sk", "_live_", some(24)),
    plain("Stripe, test", "sk", "_test_", some(99)),
    plain("Stripe, restricted", "rk", "_live_", some(24)),
    plain("Stripe, webhook", "wh", "sec_", some(32)),
    plain("Square", "sq0", "atp-", some(22, URL64)),
    plain("Shopify", "shp", "at_", some(32, HEX)),
    plain("Twilio", "S", "K", some(32, HEX)),
    inside("Twilio, auth", `TWILIO_AUTH_${"TOKEN"}=`, some(32, HEX)),
    plain("SendGrid", "S", "G.", some(22, URL64), ".", some(43, URL64)),
    plain("Mailgun", "ke", "y-", some(32, HEX)),
    plain("Mailchimp", some(32, HEX), "-us", "14"),
    plain("Linear", "lin", "_api_", some(40)),
    plain("Notion", "nt", "n_", some(46)),
    plain("Figma", "fi", "gd_", some(40, URL64)),
    plain("Airtable", "pa", "t", some(14), ".", some(64, HEX)),
    plain("Sentry", "snt", "ryu_", some(64, HEX)),
    plain("Grafana", "gl", "sa_", some(32), "_", some(8, HEX)),
    plain("Supabase", "sb", "p_", some(40, HEX)),
    plain("Vault", "hv", "s.", some(95, URL64)),
    plain("Doppler", "dp", ".pt.", some(43)),
    plain("Tailscale", "tskey", "-auth-", some(17), "-", some(33)),
    plain("age", "AGE-SECRET-", "KEY-1", some(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L")),
    plain("JSON web token", "ey", "J", some(33, URL64), ".ey", "J", some(80, URL64), ".", some(43, URL64)),
    inside("password in an address", "postgres://app:", `${some(4)}7q${some(10)}`, "@db.internal:5432/app"),
    inside("basic credentials", `Authorization: ${"Basic"} `, `${some(30)}==`),
    inside("bearer token", `Authorization: ${"Bearer"} `, some(40, URL64)),
    inside(
      "private key",
      `-----BEGIN RSA ${"PRIVATE"} KEY-----\n`,
      Array.from({ length: 12 }, () => some(64, BASE64)).join("\n"),
      `\n-----END RSA ${"PRIVATE"} KEY-----`,
    ),
    inside("HubSpot", "", `pat-${"na1"}-${uuid()}`),
    inside("Plaid", "", `access-${"production"}-${uuid()}`),
    plain("Anyscale", "ese", "cret_", some(26)),
    plain("Cursor", "ke", "y_", some(64, HEX)),
    plain("Zhipu", some(32, HEX), ".", some(16)),
    plain("Yandex, access", "t", "1.", some(40, URL64), ".", some(86, URL64)),
    plain("Salesforce", "0", "0D", some(12), "!", some(96, `${ALNUM}._`)),
    plain("Adyen", "AQ", "E", some(100), "==-", some(43, BASE64), "=-", some(16)),
    plain("Mollie", "li", "ve_", some(29), "7"),
    inside("Azure, DevOps", `AZURE_DEVOPS_EXT_${"PAT"}=`, some(52, `${LOWER}234567`)),
    inside("Segment", `SEGMENT_WRITE_${"KEY"}=`, some(32)),
    inside("Rails", `SECRET_KEY_${"BASE"}=`, some(128, HEX)),
    inside("Django", `SECRET_${"KEY"} = "`, `${some(20)}7!@#$^*(-_=+)${some(17)}`, '"'),
    inside("PagerDuty", `Authorization: Token ${"token"}=`, `${some(8)}+_${some(10)}`),
    inside("X", `Authorization: ${"Bearer"} `, `${some(46)}%3D${some(50)}`),
    inside("Kubernetes, key", `client-${"key"}-data: `, `LS0tLS1CRUdJTiBSU0EgUFJJ${some(1600, BASE64)}==`),
    inside(".netrc", "machine api.internal login a@b.org password ", uuid()),
    inside("curl, user", "curl -s -u admin:", some(16), " https://api.internal/"),
    inside("mysql, password", "mysql -u root -p", `${some(6)}7${some(8)}`, " app"),
  ];
}

/** Percent-encoding, as addresses are encoded, of what a key's own alphabet does not have. */
const percent = (text: string): string => encodeURIComponent(text);
const json = (text: string): string => JSON.stringify(text).slice(1, -1);

/** What stands around a key, and how it is written there. */
export const WRAPPINGS: readonly (readonly [name: string, wrap: (key: string) => string])[] = [
  ["alone", (key) => key],
  ["in a sentence", (key) => `The key is ${key}. Keep it.`],
  ["coloured", (key) => `found \u001b[1;32m${key}\u001b[0m here`],
  ["coloured, escaped", (key) => json(`found \u001b[32m${key}\u001b[0m here`)],
  ["behind an escaped line end", (key) => `first\\n${json(key)}\\nlast`],
  ["in JSON", (key) => JSON.stringify({ value: key })],
  ["in JSON in JSON", (key) => JSON.stringify({ arguments: JSON.stringify({ value: `x\n${key}` }) })],
  ["percent-encoded", (key) => `https://example.org/?a=1&next=token%3D${percent(key)}%26b%3D2`],
  ["encoded twice", (key) => `u=${percent(percent(`key=${key}`))}`],
  ["assigned in a shell", (key) => `export VALUE='${key}' && run`],
  ["in backticks", (key) => `use \`${key}\` for now`],
  ["in a link of markdown", (key) => `[open](https://example.org/x?k=${key}) it`],
  ["behind a name of its own", (key) => `my_${key} and more`],
  ["beside Chinese", (key) => `密钥是${key}。请保密`],
  ["in HTML", (key) => `<b title=&quot;${key}&quot;>x</b>`],
  ["in a row of a table", (key) => `| name | ${key} |\n|---|---|`],
];

/** What looks like a secret and is none: placeholders, branches, hashes, public keys, code. */
export function innocents(seed: number): string[] {
  const some = chance(seed);
  const hash = some(40, HEX);
  return [
    "sk-ant-your-api-key-goes-here",
    "sk-ant-api03-your-key-here-please-replace-it",
    `gh${"p_"}${"x".repeat(36)}`,
    `gh${"p_"}${"X".repeat(36)}`,
    `sk-${"x".repeat(48)}`,
    `sk-proj-${"x".repeat(60)}`,
    "OPENAI_API_KEY=sk-your-openai-key-goes-in-this-place",
    "git checkout feature/sk-ant-migration-to-the-new-api-2024",
    "git switch -c fix/sk-proj-key-rotation-for-the-billing-worker",
    "branch glpat-rotation-for-ci-runners-in-q3",
    "branch npm_and_yarn/packages/engine/typescript-5.9.2",
    "chore/hf_transformers_finetuning_of_the_small_model_v2",
    "risk-analysis-of-the-whole-migration-2024-11-05",
    `task-${some(32, HEX)} is done`,
    `cache-key-${some(32, HEX)}`,
    `commit ${hash} by someone`,
    `sha512-${some(86, BASE64)}==`,
    `image: app@sha256:${some(64, HEX)}`,
    `id: ${some(8, HEX)}-${some(4, HEX)}-4${some(3, HEX)}-a${some(3, HEX)}-${some(12, HEX)}`,
    `ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI${some(43, BASE64)} me@host`,
    `-----BEGIN CERTIFICATE-----\n${some(64, BASE64)}\n${some(64, BASE64)}\n-----END CERTIFICATE-----`,
    `-----BEGIN PUBLIC KEY-----\n${some(64, BASE64)}\n-----END PUBLIC KEY-----`,
    `data:image/png;base64,iVBORw0KGgo${some(400, BASE64)}`,
    `"etag": "W/\\"${some(27, BASE64)}\\""`,
    "The header is `Authorization: Bearer <token>`, or Authorization: Basic <credentials>",
    "Authorization: Bearer $GITHUB_TOKEN; authorization: bearer $" + "{process.env.API_TOKEN_2}",
    "const apiKey = process.env.ANTHROPIC_API_KEY_V2 ?? config.get('anthropic.apiKey2');",
    "token: $" + "{{ secrets.GITHUB_TOKEN }}",
    "postgres://user:password@localhost:5432/app and postgres://postgres:postgres@db/app",
    "mongodb+srv://<user>:<password>@cluster0.example.net/ and redis://:$" + "{REDIS_PASSWORD}@cache:6379",
    "http://localhost:8080/@scope/package and https://medium.com/@someone/post",
    `AK${"IA"}IOSFODNN7EXAMPLE and wJalrXUtnFEMI/K7MDENG/bPxRfiCY${"EXAMPLE"}KEY`,
    `https://hooks.slack.com/services/T00000000/B00000000/${"X".repeat(24)}`,
    "xoxb-not-a-real-token-this-will-not-work",
    `pk_${"live"}_${some(24)} is public`,
    `phc_${some(43)} is public`,
    `AC${some(32, HEX)} is the account's name`,
    "input_tokens: 1234567890, output_tokens: 987654321, cache_read_input_tokens: 12345678901234567890",
    "nextPageToken=CAUQAA2b7dKf93hGzPq1 and csrf_token",
    "password: the-one-that-nobody-knows and passwordHash",
    "hf_hub_download(repo_id), npm_config_registry, gsk_transform_rotate, whsec_ is the beginning",
    "session_token is read from the cookie; secret_access_key from the environment",
    "eyJhbGciOiJIUzI1NiJ9 is a header alone",
    `${some(12, DIGITS)}-${some(32, BASE36)}.apps.googleusercontent.com`,
    "createTemporaryFolderForTheSessionUnderTest2, ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    "key: value; monkey-patching; primaryKey: userAccountIdentifier; keyboardShortcutHandlerForTheTree",
    "this.something.else.s.abcdefghijklmnopqrstuvwx, s.replaceAllOccurrencesOf(x)",
    "Grep for BEGIN PRIVATE KEY and for -----BEGIN PRIVATE KEY----- in the repository",
    'curl -u "$USER:$PASS" https://x.org; curl -u username:password https://x.org; docker run -u 1000:1000 app2',
    "mysql -u root -p app; mysql -P 3306 -h db2; mkdir -p packages/session-tree2",
    `certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t${some(400, BASE64)}`,
    'SECRET_KEY = os.environ.get("DJANGO_SECRET_KEY_2"), SECRET_KEY_BASE_DUMMY=1',
    `live_reload_of_the_second_page_v2, test_that_a_token_2_is_refused_by_the_server, key_${some(12, HEX)}`,
    `${some(32, HEX)}.jpg and assets/${some(32, HEX)}.chunk.js`,
  ];
}
