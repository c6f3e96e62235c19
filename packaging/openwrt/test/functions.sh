# Stands for OpenWrt's /lib/functions.sh, /etc/rc.common and procd's functions in tests: what a
# service says to procd is noted in "calls".
# shellcheck shell=ash

config_load() {
	_package=$1
}

# VARIABLE SECTION OPTION DEFAULT
config_get_bool() {
	local value
	value=$(uci -q get "$_package.$2.$3") || value=$4
	case $value in
	1 | on | true | yes | enabled) eval "$1=1" ;;
	*) eval "$1=0" ;;
	esac
}

# VARIABLE SECTION OPTION
config_get() {
	local value
	value=$(uci -q get "$_package.$2.$3") || value=
	eval "$1=\$value"
}

# FUNCTION TYPE
config_foreach() {
	local section
	sed -n "s/^config $2 '\(.*\)'/\1/p" "$BRAID_ROOT/etc/config/$_package" |
		while read -r section; do
			"$1" "$section"
		done
}

rc_common() {
	case $1 in
	start)
		start || return 1
		service_triggers
		;;
	stop) stop ;;
	reload) reload_service ;;
	esac
}

start() {
	start_service || return 1
	if type service_started >/dev/null 2>&1; then
		service_started
	fi
}

stop() {
	if type stop_service >/dev/null 2>&1; then
		stop_service
	fi
	_note kill braid
}

procd_open_instance() { _note open; }
procd_set_param() { _note "$@"; }
procd_close_instance() { _note close; }
procd_add_reload_trigger() { _note trigger "$@"; }
procd_running() { [ -e "$BRAID_ROOT/running" ]; }

_note() {
	echo "procd $*" >>"$BRAID_ROOT/calls"
}
