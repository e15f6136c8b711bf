/** An address below a service. By concatenation: a colon or an odd character in a segment must not be read as a scheme. */
export function endpoint(base: URL, ...segments: readonly string[]): URL {
  const path = segments
    // Build metadata: some registries do not decode.
    .map((segment) => encodeURIComponent(segment).replaceAll('%2B', '+'))
    .join('/');
  return new URL(`${base.origin}${base.pathname.replace(/\/?$/, '/')}${path}`);
}
