# shellcheck shell=ash
# The config has two forms, /etc/config/braid for OpenWrt and /etc/braid/braid.toml for the daemon.
# Sourced by the service and the protocol handler.

BRAID_UCI="${BRAID_ROOT:-}/etc/config/braid"
BRAID_TOML="${BRAID_ROOT:-}/etc/braid/braid.toml"
# Checksums of both when they last were the same. Times won't do: routers often have no clock.
BRAID_SETTLED="${BRAID_ROOT:-}/etc/braid/.settled"

# Brings what was changed in one form to the other; changed in both, UCI's counts. Writes nothing
# when nothing was changed, to spare the flash.
braid_settle() {
	local uci toml
	uci=$(_braid_sum "$BRAID_UCI")
	toml=$(_braid_sum "$BRAID_TOML")
	[ "$uci $toml" = "$(cat "$BRAID_SETTLED" 2>/dev/null)" ] && return 0
	if ! grep -qE "^[[:space:]]*config[[:space:]]+['\"]?interface" "$BRAID_UCI" 2>/dev/null; then
		[ -e "$BRAID_TOML" ] || {
			_braid_log "there is no tunnel yet: braid home join LINE, or fill in $BRAID_UCI"
			return 1
		}
		_braid_to_uci || return 1
	elif [ -e "$BRAID_TOML" ] && [ "$uci" = "$(cut -d' ' -f1 "$BRAID_SETTLED" 2>/dev/null)" ]; then
		_braid_to_uci || return 1
	else
		_braid_from_uci || return 1
	fi
	echo "$(_braid_sum "$BRAID_UCI") $(_braid_sum "$BRAID_TOML")" >"$BRAID_SETTLED"
}

# As the service and netifd see it: functions.sh is there.
braid_is_enabled() {
	local enabled
	config_load braid
	config_get_bool enabled daemon enabled 0
	[ "$enabled" = 1 ]
}

_braid_from_uci() {
	local new="$BRAID_TOML.new" told
	mkdir -p "${BRAID_TOML%/*}"
	chmod 700 "${BRAID_TOML%/*}"
	if told=$(braid config from-uci --out "$new" "$BRAID_UCI" 2>&1) &&
		told=$(braid config check "$new" 2>&1); then
		mv "$new" "$BRAID_TOML"
		return 0
	fi
	rm -f "$new"
	_braid_log "$told"
	return 1
}

# What is OpenWrt's alone is kept.
_braid_to_uci() {
	local new="$BRAID_UCI.new" told enabled
	enabled=$(uci -q get braid.daemon.enabled)
	if told=$(braid config check "$BRAID_TOML" 2>&1) && {
		printf "config daemon 'daemon'\n\toption enabled '%s'\n\n" "${enabled:-0}"
		braid config to-uci "$BRAID_TOML"
	} >"$new"; then
		mv "$new" "$BRAID_UCI"
		return 0
	fi
	rm -f "$new"
	_braid_log "$told"
	return 1
}

_braid_sum() {
	if [ -e "$1" ]; then
		md5sum <"$1" | cut -d' ' -f1
	else
		echo none
	fi
}

_braid_log() {
	logger -t braid -p daemon.err "$1"
	echo "braid: $1" >&2
}
