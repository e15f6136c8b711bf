/** By which the AWS SDK lets itself be told not to warn of versions of Node. */
const VARIABLE = 'AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED';

/**
 * Keeps the AWS SDK from telling of old versions of Node on standard error, in several lines, where there is to be one JSON
 * object a line. Other warnings of the process are told as ever. Called before the SDK makes its first client.
 */
export function keepSdkQuiet(): void {
  process.env[VARIABLE] ??= 'true';
}
