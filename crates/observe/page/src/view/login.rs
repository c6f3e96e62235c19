use super::frame::{document, icon};
use crate::Settings;
use crate::access::password;
use maud::{Markup, html};

/// The login page; `message` says what was wrong.
pub fn login(settings: &Settings, message: Option<&str>) -> Markup {
    let has_password = password::is_any_set(&settings.password_file);
    let body = html! {
        main.login #content {
            h1 { (icon()) " " (settings.name) }
            @if let Some(message) = message { p.alarm role="alert" { (message) } }
            @if has_password {
                form.card method="post" action="/login" {
                    label { "As " select name="role" {
                        option value="admin" { "admin: may change things" }
                        option value="reader" { "reader: may look" }
                    } }
                    // A user name for password managers.
                    input type="text" name="username" value="braid" autocomplete="username" hidden;
                    label { "Password " input type="password" name="password"
                        autocomplete="current-password" required autofocus; }
                    button.main { "Log in" }
                }
                p.dim { "Or run " code { (settings.login_command) } " on this host, as root: it prints a link that logs you in." }
            } @else {
                div.card {
                    p { "Run " code { (settings.login_command) } " on this host, as root: it prints a link that logs you in." }
                    p { "To log in with a password, set one with " code { "braid ui password" } "." }
                }
            }
        }
    };
    document(&format!("Log in · {}", settings.name), body)
}
