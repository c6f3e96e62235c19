//! The same work for every server and layout: no randomness, so every run does the same.

use std::fmt::Write;

/// Accounts that exist from the start.
const ACCOUNTS: u32 = 1000;
/// Lines that a transaction adds to the ledger.
const LINES: u32 = 4;

/// Rows of the ledger, and the sum of all balances.
pub(super) const TOTALS: &str =
    "SELECT (SELECT COUNT(*) FROM bench_ledger), (SELECT SUM(balance) FROM bench_account);\n";

/// Tables and accounts.
pub(super) fn prepare() -> String {
    let mut sql = String::from(
        "CREATE TABLE bench_account (id INT PRIMARY KEY, balance BIGINT NOT NULL, note VARCHAR(200) NOT NULL);\n\
         CREATE TABLE bench_ledger (run VARCHAR(40) NOT NULL, id INT NOT NULL, account INT NOT NULL, amount INT NOT NULL, text VARCHAR(200) NOT NULL);\n\
         BEGIN;\n",
    );
    for id in 0..ACCOUNTS {
        let _ = writeln!(sql, "INSERT INTO bench_account VALUES ({id}, 0, '{}');", "n".repeat(120));
    }
    sql.push_str("COMMIT;\n");
    sql
}

/// Each books some lines, changes an account and reads it, and is on disk before the next one.
pub(super) fn run(count: u32) -> String {
    let mut sql = String::new();
    for number in 0..count {
        // Steps of a prime far from the number of accounts visit all of them, but not in order.
        let account = (u64::from(number) * 7919 % u64::from(ACCOUNTS)) as u32;
        sql.push_str("BEGIN;\n");
        for line in 0..LINES {
            let id = number * LINES + line;
            let text = "t".repeat(100);
            let _ = writeln!(
                sql,
                "INSERT INTO bench_ledger VALUES ('run', {id}, {account}, 1, '{text}');"
            );
        }
        let _ = writeln!(
            sql,
            "UPDATE bench_account SET balance = balance + {LINES} WHERE id = {account};"
        );
        let _ = writeln!(sql, "SELECT balance FROM bench_account WHERE id = {account};");
        sql.push_str("COMMIT;\n");
    }
    sql
}
