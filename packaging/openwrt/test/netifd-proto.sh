# Stands for OpenWrt's netifd-proto.sh in tests: what a handler tells netifd is noted in "calls".
# shellcheck shell=ash

init_proto() {
	_action=$1
	_interface=$2
}

add_protocol() {
	"proto_$1_init_config"
	"proto_$1_$_action" "$_interface"
}

json_get_var() { eval "$1="; }
proto_config_add_string() { :; }
proto_init_update() { _told update "$@"; }
proto_add_ipv4_address() { _told ipv4 "$@"; }
proto_add_ipv6_address() { _told ipv6 "$@"; }
proto_send_update() { _told send "$@"; }
proto_notify_error() { _told error "$@"; }
proto_block_restart() { _told block "$@"; }
proto_setup_failed() { _told failed "$@"; }

_told() {
	echo "$*" >>"$BRAID_ROOT/calls"
}
