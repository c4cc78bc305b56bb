// Separate from redact-text.ts: it is a table of facts with their sources.
/** One documented form of a secret. */
export interface SecretFormat {
  /** Issuer and kind of the secret, for the placeholder. */
  name: string;
  /**
   * The form. It is matched at its anchor. A group `keep` is text before the secret that stays in place. A group `back`
   * is the part of the secret before the position of the match.
   */
  pattern: RegExp;
  /** Three-character strings in lower case. Every match begins with one of them. */
  grams: readonly string[];
  /** Literal at the beginning of every match; undefined when letter case or characters vary. */
  anchor: string | undefined;
  /** Evidence that makes a match a secret. */
  evidence: Evidence;
}

/**
 * Evidence beyond a matching form:
 *
 * - `form`: none; the form is enough
 * - `not-invented`: no placeholder, and not made of words
 * - `random`: like `not-invented`, and with letters and digits mixed
 * - `password`: no word or variable that examples use
 */
export type Evidence = "form" | "not-invented" | "random" | "password";

// Alphabets from the issuers' documentation.
const HEX = "[0-9a-f]";
const ALNUM = "[A-Za-z0-9]";
const URL64 = "[A-Za-z0-9_-]";
const BASE64 = "[A-Za-z0-9+/]";
const UUID = `${HEX}{8}-${HEX}{4}-${HEX}{4}-${HEX}{4}-${HEX}{12}`;

/** Left boundary for prefixes that are also ends of words: `task-`, `core_`. */
const APART = "(?<![A-Za-z0-9])";

/**
 * Prefixes that issuers chose to make their keys recognizable, and the part after them: name, prefixes, body. There is
 * no left boundary, because a letter may precede a key: `my_`, the `n` of a JSON escape `\n`, the `m` that ends an ANSI
 * colour. Every repetition has an upper bound, so the cost of a failed match is bounded.
 */
const PREFIXED: readonly (readonly [name: string, prefixes: string, body: string])[] = [
  // Models.
  ["anthropic key", "sk-ant-", `${URL64}{20,400}`],
  ["openai key", "sk-proj- sk-svcacct- sk-admin- sk-None-", `${URL64}{20,400}`],
  ["openrouter key", "sk-or-", `${URL64}{30,100}`],
  ["groq key", "gsk_", `${ALNUM}{40,100}`],
  ["xai key", "xai-", `${ALNUM}{40,120}`],
  ["perplexity key", "pplx-", `${ALNUM}{32,100}`],
  ["replicate token", "r8_", `${ALNUM}{30,60}`],
  ["hugging face token", "hf_ api_org_", `${ALNUM}{30,60}`],
  ["nvidia key", "nvapi-", `${URL64}{40,100}`],
  ["cerebras key", "csk-", `${ALNUM}{40,80}`],
  ["together key", "tgp_v1_", `${URL64}{30,80}`],
  ["langsmith key", "lsv2_pt_ lsv2_sk_ ls__", `${HEX}{32}(?:_${HEX}{10})?`],
  ["pinecone key", "pcsk_", "[A-Za-z0-9_]{40,100}"],
  ["jina key", "jina_", `${ALNUM}{40,100}`],
  ["tavily key", "tvly-", `${URL64}{20,80}`],
  ["e2b key", "e2b_", `${HEX}{40}`],
  ["runpod key", "rpa_", `${ALNUM}{40,60}`],
  ["anyscale key", "esecret_", `${ALNUM}{24,40}`],
  ["apify token", "apify_api_", `${ALNUM}{30,60}`],
  // Clouds.
  ["google key", "AIza", `${URL64}{35}`],
  ["google key", "AQ.Ab", `${URL64}{30,200}`],
  ["google code", "4/0A", `${URL64}{50,200}`],
  ["firebase key", "APA91b", `${URL64}{100,200}`],
  ["google secret", "GOCSPX-", `${URL64}{20,60}`],
  ["google token", "ya29.", "[A-Za-z0-9_.-]{20,2000}"],
  ["google token", "1//0", `${URL64}{30,500}`],
  ["aws key", "AKIA ASIA ABIA ACCA", "[A-Z0-9]{16}(?![A-Z0-9])"],
  ["aws key", "ABSK bedrock-api-key-", `${BASE64}{60,2000}={0,2}`],
  ["aws session token", "IQoJb3JpZ2lu FwoGZXIvYXdz FQoGZXIvYXdz", `${BASE64}{60,4000}={0,2}`],
  ["aws key", "amzn.mws.", UUID],
  ["digitalocean token", "dop_v1_ doo_v1_ dor_v1_", `${HEX}{40,80}`],
  ["digitalocean key", "DO00", "[A-Z0-9]{16}(?![A-Z0-9])"],
  ["alibaba key", "LTAI", `${ALNUM}{12,24}(?!${ALNUM})`],
  ["tencent key", "AKID", `${ALNUM}{32,36}(?!${ALNUM})`],
  ["cloudflare key", "v1.0-", `${HEX}{24}-${HEX}{146}`],
  ["cloudflare token", "cfk_ cfut_ cfat_", `${URL64}{40,80}`],
  ["fly token", "fm1a_ fm1r_ fm2_ fo1_", "[A-Za-z0-9+/_=-]{40,2000}"],
  ["heroku key", "HRKU-", `${URL64}{36,80}`],
  ["vercel token", "vcp_ vci_ vca_ vcr_ vck_", `${ALNUM}{24,80}`],
  ["netlify token", "nfp_ nfc_ nfo_", `${ALNUM}{36,60}`],
  ["render key", "rnd_", `${ALNUM}{28,60}`],
  ["databricks token", "dapi", `${HEX}{32}(?:-\\d)?(?!${HEX})`],
  ["yandex key", "AQVN", `${URL64}{35,40}`],
  ["scaleway key", "SCW", "[A-Z0-9]{17}(?![A-Z0-9])"],
  // Code, packages and builds.
  ["github token", "ghp_ gho_ ghu_ ghs_ ghr_", `${ALNUM}{36,255}`],
  ["github token", "github_pat_", "[A-Za-z0-9_]{60,255}"],
  [
    "gitlab token",
    "glpat- gldt- glrt- glrtr- glptt- glft- glsoat- glcbt- glimt- glagent- gloas- glffct- glwt- GR1348941",
    "[A-Za-z0-9_-]{20,300}(?:\\.[0-9a-z]{2}\\.?[0-9a-z]{7})?",
  ],
  ["bitbucket token", "ATBB", `${ALNUM}{28,64}(?!${ALNUM})`],
  ["atlassian token", "ATATT3 ATCTT3 ATSTT3 ATOATT3", "[A-Za-z0-9_=-]{60,400}"],
  ["trello token", "ATTA", `${HEX}{60,80}`],
  ["npm token", "npm_", `${ALNUM}{36,60}`],
  ["pypi token", "pypi-", `${URL64}{50,400}`],
  ["rubygems key", "rubygems_", `${HEX}{40,64}`],
  ["clojars token", "CLOJARS_", `${ALNUM}{50,70}`],
  ["docker token", "dckr_pat_ dckr_oat_", `${URL64}{20,60}`],
  ["artifactory key", "AKCp", `${ALNUM}{60,75}`],
  ["circleci token", "CCIPAT_ CCIPRJ_", `${ALNUM}{20,24}_${HEX}{40}`],
  ["buildkite token", "bkua_ bkpt_ bkct_ bkaj_", `${ALNUM}{36,80}`],
  ["sonar token", "squ_ sqp_ sqa_", `${HEX}{40}`],
  ["sourcegraph token", "sgp_", `(?:(?:${HEX}{16}|local)_)?${HEX}{40}`],
  ["snyk token", "snyk_uat. snyk_sat.", "[A-Za-z0-9_.-]{40,200}"],
  ["pulumi token", "pul-", `${HEX}{40}`],
  ["prefect token", "pnu_", `${ALNUM}{36}`],
  ["postman key", "PMAK-", `${HEX}{24}-${HEX}{34}`],
  ["expo token", "expo_", `${URL64}{36,60}`],
  // Payment and trade.
  ["stripe key", "sk_live_ sk_test_ rk_live_ rk_test_ sk_org_ sk_prod_ rk_prod_", `${ALNUM}{16,250}`],
  ["webhook secret", "whsec_", "[A-Za-z0-9+/=_]{24,128}"],
  ["square token", "sq0atp- sq0csp-", `${URL64}{22,60}`],
  ["shopify token", "shpat_ shpca_ shppa_ shpss_ shpua_ shprt_ shptka_", `${ALNUM}{32,64}`],
  ["braintree token", "access_token$production$ access_token$sandbox$", `${ALNUM}{16}\\$${HEX}{32}`],
  ["plaid token", "access-sandbox- access-development- access-production-", UUID],
  ["flutterwave key", "FLWSECK_TEST- FLWSECK-", `${ALNUM}{12,40}(?:-X)?`],
  ["paypal token", "A21AA", `${URL64}{80,120}`],
  ["easypost key", "EZAK EZTK", `${ALNUM}{54}`],
  ["shippo token", "shippo_live_ shippo_test_", `${HEX}{40}`],
  ["duffel token", "duffel_live_ duffel_test_", "[A-Za-z0-9_=-]{40,50}"],
  // Messages and mail.
  ["slack token", "xoxb- xoxp- xoxa- xoxo- xoxr- xoxs- xoxc- xoxe-", "[0-9A-Za-z-]{16,400}"],
  ["slack token", "xoxd-", "[A-Za-z0-9%+/=-]{40,500}"],
  ["slack token", "xapp-", "\\d-[A-Z0-9]{6,20}-\\d{6,20}-[A-Za-z0-9]{20,100}"],
  ["slack webhook", "hooks.slack.com/", "(?:services|workflows|triggers)/[A-Za-z0-9+/]{20,100}"],
  [
    "discord webhook",
    "discord.com/api/ discordapp.com/api/",
    `(?:v\\d+/)?webhooks/\\d{15,22}/${URL64}{40,100}`,
  ],
  [
    "teams webhook",
    "webhook.office.com/webhookb2/",
    "[A-Za-z0-9@/-]{60,250}(?:IncomingWebhook/[A-Za-z0-9/-]{32,120})?",
  ],
  ["zapier webhook", "hooks.zapier.com/hooks/", "[A-Za-z0-9/]{14,80}"],
  ["sendgrid key", "SG.", `${URL64}{16,30}\\.${URL64}{20,60}`],
  ["brevo key", "xkeysib- xsmtpsib-", `${HEX}{64}-${ALNUM}{16}`],
  ["mailgun key", "pubkey-", `${HEX}{32}`],
  // Work, design, data.
  ["linear key", "lin_api_ lin_oauth_ lin_wh_", `${ALNUM}{32,64}`],
  ["notion token", "ntn_ secret_", `${ALNUM}{43,50}(?!${ALNUM})`],
  ["figma token", "figd_ figu_ figo_ figoh_ figor_", `${URL64}{30,120}`],
  ["mapbox token", "sk.eyJ tk.eyJ", `${URL64}{20,300}\\.${URL64}{20,40}`],
  ["confluent secret", "cflt", `${BASE64}{56,64}`],
  ["frame.io token", "fio-u-", "[A-Za-z0-9_=-]{60,70}"],
  ["airtable token", "pat", `${ALNUM}{14}\\.${HEX}{64}`],
  ["contentful token", "CFPAT-", `${URL64}{40,50}`],
  ["typeform token", "tfp_", "[A-Za-z0-9_.=-]{40,70}"],
  ["dropbox token", "sl.", `(?:u\\.)?${URL64}{100,2000}`],
  ["hubspot token", "pat-na1- pat-na2- pat-na3- pat-eu1- pat-ap1-", UUID],
  ["sentry token", "sntrys_ sntryu_ sntrya_ sntryi_", "[A-Za-z0-9+/=_]{40,500}"],
  ["new relic key", "NRAK- NRII- NRIQ- NRSP- NRRA-", `${URL64}{24,40}`],
  ["grafana token", "glsa_ glc_", "[A-Za-z0-9+/_]{32,400}={0,2}"],
  ["dynatrace token", "dt0c01. dt0s01. dt0s02. dt0s16.", "[A-Z0-9]{8,24}\\.[A-Z0-9]{64}"],
  ["posthog key", "phx_", `${ALNUM}{36,60}`],
  ["honeycomb key", "hcaik_ hcbik_ hcaak_ hcamk_ hcalk_ hcxik_", `${ALNUM}{40,64}`],
  ["planetscale token", "pscale_tkn_ pscale_pw_ pscale_oauth_ pscale_otkn_", "[A-Za-z0-9_=.-]{30,70}"],
  ["supabase key", "sbp_ sb_secret_", `(?:v0_)?${URL64}{30,60}`],
  ["neon key", "napi_", `${ALNUM}{40,80}`],
  ["mongodb secret", "mdb_sa_sk_", `${URL64}{30,60}`],
  ["readme key", "rdme_", "[a-z0-9]{60,80}"],
  // Vaults and networks.
  ["vault token", "hvs. hvb. hvr.", `${URL64}{20,400}`],
  ["doppler token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", "[A-Za-z0-9_.-]{36,100}"],
  [
    "private key",
    // A private key in base64, as in Kubernetes files.
    "LS0tLS1CRUdJTiBSU0EgUFJJ LS0tLS1CRUdJTiBQUklW LS0tLS1CRUdJTiBFQyBQUklW LS0tLS1CRUdJTiBPUEVOU1NI LS0tLS1CRUdJTiBFTkNSWVBURUQg",
    `${BASE64}{40,20000}={0,2}`,
  ],
  ["1password token", "ops_eyJ", `${BASE64}{100,2000}={0,3}`],
  ["1password key", "A3-", "[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}"],
  ["tailscale key", "tskey-", "[a-z]{3,12}-[A-Za-z0-9]{8,40}-[A-Za-z0-9]{16,64}"],
  ["age key", "AGE-SECRET-KEY-1 AGE-SECRET-KEY-PQ-1", "[A-Z0-9]{50,70}"],
  ["age key", "age-secret-key-1", "[a-z0-9]{50,70}"],
  ["openshift token", "sha256~", `${URL64}{43}(?!${URL64})`],
  ["harness token", "pat. sat.", `${URL64}{22}\\.${ALNUM}{24}\\.${ALNUM}{20}`],
  ["twilio key", "SK", `${HEX}{32}(?!${HEX})`],
];

/** Prefixes that are also ends of common words, and so need a boundary on the left. */
const APART_PREFIXED: readonly (readonly [name: string, prefixes: string, body: string])[] = [
  ["api key", "sk-", `(?:[a-z0-9]{2,12}-){0,2}${ALNUM}{30,100}`],
  ["elevenlabs key", "sk_", `${HEX}{48}(?!${ALNUM})`],
  ["fireworks key", "fw_", `${ALNUM}{22,30}(?!${ALNUM})`],
  ["openai session", "sess-", `${ALNUM}{40}(?!${ALNUM})`],
  ["nuget key", "oy2", `[a-z0-9]{43}(?![a-z0-9])`],
  ["launchdarkly key", "sdk- api-", UUID],
  ["twitch token", "oauth:", "[a-z0-9]{30}(?![a-z0-9])"],
  ["facebook token", "EAA", `${ALNUM}{90,400}`],
  ["firecrawl key", "fc-", `${HEX}{32}(?!${ALNUM})`],
  ["voyage key", "pa-", `${URL64}{40,50}(?!${URL64})`],
  ["resend key", "re_", `${ALNUM}{8}_${ALNUM}{20,30}(?!${ALNUM})`],
  ["mandrill key", "md-", `${URL64}{22}(?!${URL64})`],
  ["clickup token", "pk_", `\\d{6,9}_[A-Z0-9]{32}`],
  ["vault token", "s.", `${ALNUM}{24}(?:\\.${ALNUM}{5})?(?!${ALNUM}|[._-]${ALNUM})`],
  ["crates token", "cio", `${ALNUM}{32}(?!${ALNUM})`],
  ["artifactory token", "cmVmd", `${ALNUM}{59}(?!${ALNUM})`],
  ["infracost key", "ico-", `${ALNUM}{32}(?!${ALNUM})`],
  ["adobe secret", "p8e-", `${ALNUM}{32}`],
  ["square token", "EAAA", `${URL64}{60}(?!${URL64})`],
  ["octopus key", "API-", "[A-Z0-9]{26}(?![A-Z0-9])"],
  ["cursor key", "key_", `${HEX}{64}(?!${ALNUM})`],
  ["yandex token", "t1.", `${URL64}{20,400}\\.${URL64}{86}(?!${URL64})`],
  ["salesforce token", "00D", `${ALNUM}{12}!${ALNUM}[A-Za-z0-9._]{60,200}`],
  [
    "adyen key",
    "AQE",
    `${BASE64}{60,200}={0,2}-${BASE64}{40,48}={0,2}-[A-Za-z0-9+/!"#$%&()*,.:;=?@^_{|}~[\\]-]{10,40}`,
  ],
  ["mfa token", "mfa.", `${URL64}{80,90}`],
];

/** Middle part of keys in the style of Stripe and GitHub, of any issuer: `name_live_…`, `name_pat_…`. */
const TYPED = "_live_ _test_ _prod_ _api_ _pat_ _sk_ _secret_ _token_ _key_ _tok_";

/** Text between a name and its value: quotes, brackets, an assignment sign. */
const ASSIGNS = "[\"'`\\]]{0,2}[\\s|+]{0,4}(?:=>|:=|={1,2}|[:>,|])[\\s|+]{0,4}[\"'`(\\[]{0,2}";

/** {@link ASSIGNS}, or the blank between a command-line flag and its value. */
const GIVES = `(?:${ASSIGNS}|(?<=--[\\w-]{1,40})[ \\t]{1,3}["']?)`;

/** Names whose value is a secret. */
const NAMED_KEY =
  "(?<=(?:api|access|secret|private|account|auth|app|application|master|signing|encryption|license|service|subscription|admin|consumer|client|storage|project|ingest|function|host|write|deploy|server)[_-]?)key";

const NAMED_TOKEN =
  "(?<!(?:page|next|csrf|xsrf|continuation|sync|cursor|cancellation|cancel|resume|idempotency|client)[_-]?)token";

function prefixed([name, prefixes, body]: (typeof PREFIXED)[number], left = ""): SecretFormat[] {
  return prefixes.split(" ").map((anchor) => ({
    name,
    pattern: new RegExp(`${left}${literal(anchor)}${body}`, "y"),
    grams: gramsOf(anchor),
    anchor,
    evidence: "not-invented" as const,
  }));
}

function written(
  name: string,
  grams: string,
  source: string,
  { evidence = "not-invented", flags = "y" }: { evidence?: Evidence; flags?: string } = {},
): SecretFormat {
  return { name, pattern: new RegExp(source, flags), grams: grams.split(" "), anchor: undefined, evidence };
}

/** Text between two lines of a key: white space, line numbers, quotes or diff marks. */
const NEXT_LINE = "[^A-Za-z0-9+/]{1,20}(?:\\d{1,5}[^A-Za-z0-9+/]{1,4})?";

const anyCase = { flags: "iy" };

/** A value after a name that marks it as a secret. */
function named(name: string, grams: string, label: string, value: string, evidence: Evidence = "random") {
  return written(name, grams, `(?<keep>${label}${GIVES})${value}`, { ...anyCase, evidence });
}

/**
 * All formats, from the most to the least specific. Sources: the issuers' documentation, and the list of formats of
 * gitleaks (decision 0028) for prefixes, alphabets and lengths.
 */
export const SECRET_FORMATS: readonly SecretFormat[] = [
  ...PREFIXED.flatMap((row) => prefixed(row)),
  // Also matches a truncated key, and a key with line numbers, quotes or diff marks.
  written(
    "private key",
    "---",
    "-----BEGIN[ +](?:[A-Z0-9]{1,20}[ +]){0,3}PRIVATE[ +]KEY(?:[ +]BLOCK)?-----(?:(?=(?:[^-]|-(?!----)){0,400}[A-Za-z0-9+/]{32})(?:[^-]|-(?!----)){64,20000}-----END[ +](?:[A-Z0-9]{1,20}[ +]){0,3}PRIVATE[ +]KEY(?:[ +]BLOCK)?-----|(?:\\s{0,9}[A-Za-z-]{1,30}: [^\\n]{0,200}){0,4}(?:[^A-Za-z0-9+/]{0,20}(?:\\d{1,5}[^A-Za-z0-9+/]{1,4})?[A-Za-z0-9+/]{20,20000}={0,2}){1,400})",
    { evidence: "form" },
  ),
  // The end of a key whose beginning is not in the text, for example the output of `tail`.
  written(
    "private key",
    "---",
    `-----END[ +](?:[A-Z0-9]{1,20}[ +]){0,3}PRIVATE[ +]KEY(?:[ +]BLOCK)?-----(?<=(?<back>(?:${BASE64}{20,200}${NEXT_LINE}){1,400}(?:${BASE64}{1,200}${NEXT_LINE})?)-----END[^-]{1,90}-----)`,
    { evidence: "form" },
  ),
  written(
    "private key",
    "pri",
    `(?<keep>Private-Lines: \\d{1,4}\\s{1,4})(?:${BASE64}{20,100}={0,2}\\s{0,4}){1,100}`,
    {
      evidence: "form",
    },
  ),
  // A signed or an encrypted JSON web token. The lookahead reads the header once. Without it, repeated `eyJ` would be slow.
  written(
    "token",
    "eyj",
    `eyJ(?=(?<run>${URL64}{10,400}))\\k<run>\\.(?:eyJ${URL64}{10,16000}\\.${URL64}{16,2000}|${URL64}{0,1000}\\.${URL64}{8,40}\\.${URL64}{8,16000}\\.${URL64}{16,60}(?!${URL64}))`,
    { evidence: "form" },
  ),
  written("grafana token", "eyj", `eyJrIjoi${ALNUM}{60,400}={0,2}`),
  written("openai key", "sk-", `sk-${ALNUM}{20}T3BlbkFJ${ALNUM}{20,60}`),
  written("terraform token", ".at", `(?<=(?<back>${ALNUM}{14}))\\.atlasv1\\.${URL64}{50,80}`),
  written("azure secret", digits("q~"), "(?<=(?<back>[A-Za-z0-9_~.]{3}))\\dQ~[A-Za-z0-9_~.-]{30,36}"),
  written("azure key", "azd", `(?<=(?<back>${ALNUM}{70,80}))AZDO${ALNUM}{4}`, { evidence: "form" }),
  written("azure key", "jqq", `(?<=(?<back>${ALNUM}{44,56}))JQQJ99${ALNUM}{10}AC${ALNUM}{4}${ALNUM}{4,12}`, {
    evidence: "form",
  }),
  written("telegram token", ":aa", `(?<=(?<back>(?<!\\d)\\d{8,10})):AA${URL64}{32,35}`),
  written("mailgun key", "key", `(?<!${ALNUM}-?)key-${HEX}{32}(?!${HEX})`, { evidence: "random" }),
  written("asana token", "/12 /11", `(?<=(?<back>[012]))/1[12]\\d{14}(?:/\\d{16})?:${HEX}{32}`),
  written(
    "sidekiq secret",
    "://",
    `(?<keep>://)${HEX}{8}:${HEX}{8}(?=@(?:gems|enterprise)\\.contribsys\\.com)`,
  ),
  // The user can be missing, the password cannot. A number alone is a port.
  written(
    "password",
    "://",
    "(?<keep>(?<=[A-Za-z][A-Za-z0-9+.-]{0,30})://[^\\s/?#:@\"'<>`]{0,128}(?:@[^\\s/?#:@\"'<>`]{1,128})?:)(?!\\d{1,5}@)[^\\s/?#@\"'<>`]{3,256}(?=@[A-Za-z0-9[])",
    { evidence: "password" },
  ),
  written(
    "credentials",
    "aut",
    `(?<keep>authorization${ASSIGNS}basic[\\s+]{1,3})[A-Za-z0-9+/_-]{8,1000}={0,2}`,
    anyCase,
  ),
  written(
    "bearer token",
    "aut",
    `(?<keep>authorization${ASSIGNS}(?:bearer|token|apikey|key|ssws|splunk|genie_?key)[\\s+]{1,3}(?:token=["']?)?)(?:[A-Za-z0-9._~+/|:-]|%(?:2B|2F|3D)|=(?=[A-Za-z0-9]{20})){16,4000}={0,2}`,
    anyCase,
  ),
  written(
    "bearer token",
    "bea",
    "(?<keep>bearer[\\s+]{1,3})(?:[A-Za-z0-9._~+/-]|%(?:2B|2F|3D)|=(?=[A-Za-z0-9]{20})){24,4000}={0,2}",
    {
      ...anyCase,
      evidence: "random",
    },
  ),
  named(
    "aws secret",
    "sec",
    "secret[_-]?(?:access[_-]?)?key",
    `${BASE64}{40}(?![A-Za-z0-9/+])`,
    "not-invented",
  ),
  named(
    "aws session token",
    "ses sec",
    "(?:session|security)[_-]?token",
    "[A-Za-z0-9/+=]{80,4000}",
    "not-invented",
  ),
  named(
    "azure key",
    "key",
    "(?<=account|sharedaccess|shared_access_)key",
    `${BASE64}{40,88}={1,2}`,
    "not-invented",
  ),
  written("azure signature", "sig", `(?<keep>(?<=[?&;])sig=)${BASE64}{43}=`, { evidence: "random" }),
  named("key", "key", NAMED_KEY, "[A-Za-z0-9+/_=.~-]{20,512}"),
  named("token", "tok", NAMED_TOKEN, "[A-Za-z0-9+/_=.~-]{20,2048}"),
  named("secret", "sec", "secret(?:[_-]?key[_-]?base)?", "[A-Za-z0-9+/_=.~-]{16,512}"),
  // Django's keys: special characters are allowed between quotes.
  written(
    "key",
    "sec",
    "(?<keep>secret[_-]?key[\"']?\\s{0,3}[:=]\\s{0,3}(?=[\"'])[\"'])[A-Za-z0-9+/_=.~!@#$%^&*()-]{32,128}(?=[\"'])",
    { ...anyCase, evidence: "random" },
  ),
  named("token", "pat", "(?<=[_-])pat", `${ALNUM}{40,100}(?!${ALNUM})`),
  written("private key", "key", `(?<keep>(?<=client-)key-data["']?:\\s{0,3}["']?)${BASE64}{40,20000}={0,2}`, {
    evidence: "random",
  }),
  // A password in the arguments of a program.
  written(
    "password",
    "cur",
    "(?<keep>curl\\s(?:[^\\n]{0,200}?\\s)?(?:-u|--user)[\\s=]{0,2}[\"']?[^\\s:\"'$]{1,64}:)[^\\s\"'`<>&|;]{6,200}",
    { evidence: "password" },
  ),
  written(
    "password",
    "mys",
    "(?<keep>mysql(?:dump|admin)?\\s(?:[^\\n]{0,200}?\\s)?(?:-p|--password=)[\"']?)[^\\s\"'`<>&|;-][^\\s\"'`<>&|;]{7,100}",
    { evidence: "random" },
  ),
  named("password", "pas pwd", "(?:password|passwd|passphrase|pwd)", "[A-Za-z0-9+/_=.~!@#$%^&*-]{12,256}"),
  written(
    "credentials",
    "aut",
    `(?<keep>(?<=["_])auth["']?\\s{0,3}[:=]\\s{0,3}["']?)${BASE64}{16,500}={0,2}`,
    { evidence: "random" },
  ),
  written("token", "aut", "(?<keep>authtoken\\s{1,3})[A-Za-z0-9_-]{24,80}", {
    ...anyCase,
    evidence: "random",
  }),
  written(
    "password",
    "pas",
    "(?<keep>(?<=login\\s{1,4}\\S{1,64}\\s{1,4})password\\s{1,4})[^\\s\"'`<>&|;,*()[\\]{}$]{6,200}",
    {
      evidence: "password",
    },
  ),
  ...APART_PREFIXED.flatMap((row) => prefixed(row, APART)),
  written("key", "liv tes", `${APART}(?:live|test)_${ALNUM}{30,40}(?![A-Za-z0-9_])`, { evidence: "random" }),
  ...TYPED.split(" ").map((kind) => ({
    ...written(
      "key",
      gramsOf(kind).join(" "),
      `(?<=(?<back>(?!pk_|pub_|public_)[A-Za-z][A-Za-z0-9]{1,12}))${literal(kind)}${ALNUM}{20,128}`,
    ),
    anchor: kind,
    evidence: "random" as const,
  })),
];

/** Formats without a literal. They are matched at the end of a run of letters, digits, `_` and `-`. */
export const RUN_FORMATS: readonly SecretFormat[] = [
  written("zhipu key", "", `\\.(?<=(?<back>(?<!${ALNUM}-?)${HEX}{32})\\.)${ALNUM}{16}(?!${ALNUM})`),
  written("discord token", "", `\\.(?<=(?<back>[MNO]${URL64}{22,27})\\.)${URL64}{6}\\.${URL64}{27,40}`),
  written("mailgun key", "", `(?<=(?<back>(?<!${ALNUM}-?)${HEX}{32}-${HEX}{8}-${HEX}{8}))`, {
    evidence: "form",
  }),
  written("mailchimp key", "", `(?<=(?<back>(?<!${ALNUM}-?)${HEX}{32}-us\\d{1,2}))`, { evidence: "form" }),
];

function literal(text: string): string {
  return text.replace(/[.$/+]/g, "\\$&");
}

/**
 * Returns the first three characters of an anchor. For an anchor of two characters: all of its continuations,
 * hexadecimal digits or (`s.`) letters and digits.
 */
function gramsOf(anchor: string): string[] {
  if (anchor.length >= 3) return [anchor.slice(0, 3).toLowerCase()];
  const following = anchor === "s." ? "abcdefghijklmnopqrstuvwxyz0123456789" : "0123456789abcdef";
  return [...following].map((character) => anchor.toLowerCase() + character);
}

function digits(after: string): string {
  return [..."0123456789"].map((digit) => digit + after).join(" ");
}
