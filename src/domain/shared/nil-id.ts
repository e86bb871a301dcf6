/** The nil UUID (RFC 9562 §5.9), which no resource has. It sorts before every other id. */
export const nilId = '00000000-0000-0000-0000-000000000000'
