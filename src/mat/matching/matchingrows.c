/*
   A maximum product matching of the rows and columns of a sparse matrix

   With the costs c_ij = log(max_k |a_ik|) - log|a_ij| >= 0 of its nonzero entries, the matching minimizes the sum of the costs of n
   entries, no two of which are in one row or column. Dual variables prove that it is minimal:

     u_i + v_j <= c_ij for all entries, with equality for the entries of the matching

   So |a_ij| exp(u_i + v_j) / max_k |a_ik| is at most 1, and it is 1 for the entries of the matching: u and v are the logarithms of
   scalings of the rows and columns.

   - The start computes v_j = min_i c_ij and u_i = min_j (c_ij - v_j), without logarithms. It matches rows by entries with
     u_i + v_j = c_ij, and moves one row to another such entry if that makes room.
   - Every other row takes a shortest augmenting path: a search by Dijkstra's algorithm with the reduced costs c_ij - u_i - v_j.
   - If a row has no augmenting path, its search closes the columns that it has reached: neither this row nor the rows of these
     columns have entries in other columns, except in columns that an earlier search has closed. Later searches leave them out.

   References: I.S. Duff and J. Koster, On algorithms for permuting large entries to the diagonal of a sparse matrix, SIAM J. Matrix
   Anal. Appl. 22 (2001); R. Jonker and A. Volgenant, A shortest augmenting path algorithm for dense and sparse linear assignment
   problems, Computing 38 (1987)
*/
#include <petscidrs/private/idrsmatching.h>
#include <petscidrs/private/idrscompat.h>
#include <float.h>

/*
   Smaller entries, relative to the largest one of their row, do not determine the start value of the dual variable of their column
*/
#define MATCHING_TINY 1e-300

/* State of a column: one of these, or its place in the heap of the present search, which is 0 or larger */
#define MATCHING_UNSEEN  -1
#define MATCHING_SCANNED -2 /* by the present search */
#define MATCHING_CLOSED  -3 /* by the first search without a path; MATCHING_CLOSED - k by the search after k others of these */

typedef struct {
  const IDRSRows *rows;
  PetscInt        n;
  PetscInt       *column, *entry; /* matched column of each row, or -1, and the place of the entry */
  PetscInt       *row;            /* matched row of each column, or -1 */
  double         *largest;        /* max_k |a_ik|, at least the smallest normal number; 1 for rows of zeros */
  double         *u, *v;
  double         *cost; /* of each entry; infinite for zeros */
  /* A search */
  PetscInt *heap, nheap;        /* columns; the one with the least distance is first */
  PetscInt *state;              /* of each column */
  PetscInt *scanned, nscanned;  /* columns; closed columns fill the last nclosed places, the last search first */
  PetscInt  nclosed, nsearches; /* closed columns, and the searches that have closed them */
  PetscInt *from, *fromentry;   /* row and entry by which a column is reached */
  double   *distance;
  double    entries; /* read by all searches */
} IDRSMatchingSolver;

static inline double IDRSMatchingModulus(const IDRSMatchingSolver *m, PetscInt p)
{
  return (double)PetscAbsScalar(m->rows->a[p]);
}

static void IDRSMatchingSet(IDRSMatchingSolver *m, PetscInt i, PetscInt p)
{
  m->column[i]          = m->rows->j[p];
  m->entry[i]           = p;
  m->row[m->rows->j[p]] = i;
}

/*
   The entry of row i with u_i + v_j = c_ij in a free column, or -1; the diagonal entry comes first. U and V are exp(-u_i) and
   exp(v_j)
*/
static PetscInt IDRSMatchingFreeEntry(const IDRSMatchingSolver *m, PetscInt i, double U, const double V[])
{
  const double inverse = 1.0 / m->largest[i];
  PetscInt     found   = -1;

  for (PetscInt p = m->rows->i[i]; p < m->rows->i[i + 1]; p++) {
    const PetscInt j = m->rows->j[p];

    if (m->row[j] >= 0 || IDRSMatchingModulus(m, p) * inverse * V[j] != U) continue;
    if (j == i) return p;
    if (found < 0) found = p;
  }
  return found;
}

/* Makes room for row i: the row that has one of its columns moves to a free column */
static void IDRSMatchingMoveOther(IDRSMatchingSolver *m, PetscInt i, const double U[], const double V[])
{
  const double inverse = 1.0 / m->largest[i];

  for (PetscInt p = m->rows->i[i]; p < m->rows->i[i + 1]; p++) {
    const PetscInt j = m->rows->j[p];
    PetscInt       other;

    if (IDRSMatchingModulus(m, p) * inverse * V[j] != U[i]) continue;
    other = IDRSMatchingFreeEntry(m, m->row[j], U[m->row[j]], V);
    if (other < 0) continue;
    IDRSMatchingSet(m, m->row[j], other);
    IDRSMatchingSet(m, i, p);
    return;
  }
}

/* The start; returns the number of rows that are matched. u and v have exp(-u_i) and exp(v_j) at first */
static PetscInt IDRSMatchingStart(IDRSMatchingSolver *m)
{
  double  *U = m->u, *V = m->v;
  PetscInt count = 0;

  for (PetscInt j = 0; j < m->n; j++) V[j] = 0.0;
  for (PetscInt i = 0; i < m->n; i++) {
    double inverse, most = 0.0;

    for (PetscInt p = m->rows->i[i]; p < m->rows->i[i + 1]; p++) most = PetscMax(most, IDRSMatchingModulus(m, p));
    m->largest[i] = most > 0.0 ? PetscMax(most, DBL_MIN) : 1.0;
    inverse       = 1.0 / m->largest[i];
    for (PetscInt p = m->rows->i[i]; p < m->rows->i[i + 1]; p++)
      V[m->rows->j[p]] = PetscMax(V[m->rows->j[p]], IDRSMatchingModulus(m, p) * inverse);
  }
  /* v_j = min_i c_ij, which is -log max_i |a_ij| / max_k |a_ik| */
  for (PetscInt j = 0; j < m->n; j++) {
    V[j]      = V[j] > 0.0 ? 1.0 / PetscMax(V[j], MATCHING_TINY) : 1.0;
    m->row[j] = -1;
  }
  for (PetscInt i = 0; i < m->n; i++) {
    const double inverse = 1.0 / m->largest[i];
    PetscInt     p;

    U[i] = 0.0;
    for (p = m->rows->i[i]; p < m->rows->i[i + 1]; p++)
      U[i] = PetscMax(U[i], IDRSMatchingModulus(m, p) * inverse * V[m->rows->j[p]]);
    m->column[i] = -1;
    p            = U[i] > 0.0 ? IDRSMatchingFreeEntry(m, i, U[i], V) : -1;
    if (p >= 0) IDRSMatchingSet(m, i, p);
  }
  for (PetscInt i = 0; i < m->n; i++) {
    if (m->column[i] < 0 && U[i] > 0.0) IDRSMatchingMoveOther(m, i, U, V);
    if (m->column[i] >= 0) count++;
  }
  for (PetscInt i = 0; i < m->n; i++) {
    U[i] = U[i] > 0.0 ? -log(U[i]) : 0.0;
    V[i] = log(V[i]);
  }
  return count;
}

/* Moves a column towards the first place of the heap, until its parent is not farther */
static void IDRSMatchingHeapUp(IDRSMatchingSolver *m, PetscInt j, PetscInt place)
{
  while (place > 0 && m->distance[m->heap[(place - 1) / 2]] > m->distance[j]) {
    m->heap[place]           = m->heap[(place - 1) / 2];
    m->state[m->heap[place]] = place;
    place                    = (place - 1) / 2;
  }
  m->heap[place] = j;
  m->state[j]    = place;
}

/* Removes the column with the least distance from the heap */
static PetscInt IDRSMatchingHeapPop(IDRSMatchingSolver *m)
{
  const PetscInt first = m->heap[0], last = m->heap[--m->nheap];
  PetscInt       place = 0;

  while (2 * place + 1 < m->nheap) {
    PetscInt child = 2 * place + 1;

    if (child + 1 < m->nheap && m->distance[m->heap[child + 1]] < m->distance[m->heap[child]]) child++;
    if (m->distance[m->heap[child]] >= m->distance[last]) break;
    m->heap[place]           = m->heap[child];
    m->state[m->heap[place]] = place;
    place                    = child;
  }
  if (m->nheap) {
    m->heap[place] = last;
    m->state[last] = place;
  }
  m->state[first]           = MATCHING_SCANNED;
  m->scanned[m->nscanned++] = first;
  return first;
}

/* Searches a shortest path from row s to a free column, which it returns, or -1 if there is none */
static PetscInt IDRSMatchingSearch(IDRSMatchingSolver *m, PetscInt s, double *length)
{
  PetscInt i = s, end = -1;
  double   base = 0.0, shortest = PETSC_INFINITY;

  m->nheap    = 0;
  m->nscanned = 0;
  while (PETSC_TRUE) {
    m->entries += (double)(m->rows->i[i + 1] - m->rows->i[i]);
    for (PetscInt p = m->rows->i[i]; p < m->rows->i[i + 1]; p++) {
      const PetscInt j = m->rows->j[p];
      /* the reduced cost of the entry is c_ij - u_i - v_j */
      const double distance = base + PetscMax(m->cost[p] - m->u[i] - m->v[j], 0.0);

      if (!(distance < shortest) || m->state[j] <= MATCHING_SCANNED) continue;
      if (m->row[j] < 0) {
        shortest = distance;
        end      = j;
      } else if (m->state[j] >= 0 && distance >= m->distance[j]) continue;
      m->from[j]      = i;
      m->fromentry[j] = p;
      if (j == end) continue;
      m->distance[j] = distance;
      IDRSMatchingHeapUp(m, j, m->state[j] >= 0 ? m->state[j] : m->nheap++);
    }
    /* no path through the heap is shorter */
    if (!m->nheap || m->distance[m->heap[0]] >= shortest) break;
    base = m->distance[m->heap[0]];
    i    = m->row[IDRSMatchingHeapPop(m)];
  }
  for (PetscInt k = 0; k < m->nheap; k++) m->state[m->heap[k]] = MATCHING_UNSEEN;
  for (PetscInt k = 0; k < m->nscanned; k++) m->state[m->scanned[k]] = end < 0 ? MATCHING_CLOSED - m->nsearches : MATCHING_UNSEEN;
  *length = shortest;
  return end;
}

/* Adds a row to the matching, and returns PETSC_FALSE if there is no augmenting path from it */
static PetscBool IDRSMatchingAugment(IDRSMatchingSolver *m, PetscInt s)
{
  double   length;
  PetscInt i, j, end = IDRSMatchingSearch(m, s, &length);

  if (end < 0) {
    m->nsearches++;
    /* the columns of a search without a path are closed */
    while (m->nscanned) m->scanned[m->n - ++m->nclosed] = m->scanned[--m->nscanned];
    return PETSC_FALSE;
  }
  /* the rows of the path move to its next columns */
  for (j = end, i = -1; i != s;) {
    const PetscInt next = m->column[m->from[j]];

    i = m->from[j];
    IDRSMatchingSet(m, i, m->fromentry[j]);
    j = next;
  }
  /* v_j -= length - distance_j, and u_i = c_ij - v_j for the matched entries */
  for (PetscInt k = 0; k < m->nscanned; k++) m->v[m->scanned[k]] -= length - m->distance[m->scanned[k]];
  for (PetscInt k = 0; k < m->nscanned; k++) {
    i       = m->row[m->scanned[k]];
    m->u[i] = m->cost[m->entry[i]] - m->v[m->scanned[k]];
  }
  i       = m->row[end];
  m->u[i] = m->cost[m->entry[i]] - m->v[end];
  return PETSC_TRUE;
}

/*
   Raises the shifts of closed columns until the entries of row i in them are at most 1. Counts only columns that the first
   `searches` searches have closed
*/
static void IDRSMatchingRaiseShifts(const IDRSMatchingSolver *m, PetscInt i, PetscInt searches, double shift[])
{
  for (PetscInt p = m->rows->i[i]; p < m->rows->i[i + 1]; p++) {
    const PetscInt j = m->rows->j[p], search = MATCHING_CLOSED - m->state[j];

    if (search >= 0 && search < searches) shift[search] = PetscMax(shift[search], m->u[i] + m->v[j] - m->cost[p]);
  }
}

/*
   Completes a matching of deficient rank. The columns that a search has closed get a common shift, with their rows, so that the
   entries of other rows in these columns are at most 1: of rows that are not closed, and of rows that a later search has closed.
   Rows without a column get dual variables by which their largest entry is 1. The remaining rows and columns are paired, by their
   diagonal entries if possible
*/
static void IDRSMatchingComplete(IDRSMatchingSolver *m)
{
  double  *shift = m->distance;
  PetscInt j     = 0;

  for (PetscInt k = 0; k < m->nsearches; k++) shift[k] = 0.0;
  for (PetscInt i = 0; i < m->n; i++) {
    if (m->column[i] >= 0 && m->state[m->column[i]] > MATCHING_CLOSED) IDRSMatchingRaiseShifts(m, i, m->nsearches, shift);
  }
  for (PetscInt k = m->n - m->nclosed; k < m->n; k++) {
    const PetscInt column = m->scanned[k], search = MATCHING_CLOSED - m->state[column];

    m->v[column] -= shift[search];
    m->u[m->row[column]] += shift[search];
    IDRSMatchingRaiseShifts(m, m->row[column], search, shift);
  }
  for (PetscInt i = 0; i < m->n; i++) {
    double least = PETSC_INFINITY;

    if (m->column[i] >= 0) continue;
    for (PetscInt p = m->rows->i[i]; p < m->rows->i[i + 1]; p++) least = PetscMin(least, m->cost[p] - m->v[m->rows->j[p]]);
    m->u[i] = least < PETSC_INFINITY ? least : 0.0;
  }
  for (PetscInt i = 0; i < m->n; i++) {
    if (m->column[i] >= 0 || m->row[i] >= 0) continue;
    m->column[i] = i;
    m->row[i]    = i;
  }
  for (PetscInt i = 0; i < m->n; i++) {
    if (m->column[i] >= 0) continue;
    while (m->row[j] >= 0) j++;
    m->column[i] = j;
    m->row[j]    = i;
  }
}

/*
   IDRSMatchRows - Computes a maximum product matching of as many rows as columns

   Input Parameters:
+ rows - the rows, with finite entries; explicit zeros are no entries
- most - how many entries the searches may look at

   Output Parameters:
+  column - the column of each row, a permutation
.  left   - logarithms of the scalings of the rows
.  right  - logarithms of the scalings of the columns
-  rank   - the structural rank: the number of rows that have an entry in their column; -1 if the searches would have to look at
            more entries than they may: then the other results are undefined
*/
PetscErrorCode IDRSMatchRows(const IDRSRows *rows, double most, PetscInt column[], double left[], double right[], PetscInt *rank)
{
  const PetscInt     n = rows->n;
  IDRSMatchingSolver m = {.rows = rows, .n = n, .column = column, .u = left, .v = right};

  PetscFunctionBegin;
  PetscCall(PetscMalloc3(n, &m.entry, n, &m.row, n, &m.largest));
  *rank = IDRSMatchingStart(&m);
  if (*rank < n) {
    PetscCall(PetscMalloc4(rows->i[n], &m.cost, n, &m.heap, n, &m.state, n, &m.scanned));
    PetscCall(PetscMalloc3(n, &m.from, n, &m.fromentry, n, &m.distance));
    for (PetscInt i = 0; i < n; i++) {
      const double largest = log(m.largest[i]);

      m.state[i] = MATCHING_UNSEEN;
      for (PetscInt p = rows->i[i]; p < rows->i[i + 1]; p++) {
        const double a = IDRSMatchingModulus(&m, p);

        /* c_ij = log(max_k |a_ik|) - log|a_ij| */
        m.cost[p] = a > 0.0 ? largest - log(a) : PETSC_INFINITY;
      }
    }
    for (PetscInt i = 0; i < n && m.entries <= most; i++) {
      if (m.column[i] < 0 && IDRSMatchingAugment(&m, i)) (*rank)++;
    }
    if (m.entries > most) *rank = -1;
    else if (*rank < n) IDRSMatchingComplete(&m);
    PetscCall(PetscFree4(m.cost, m.heap, m.state, m.scanned));
    PetscCall(PetscFree3(m.from, m.fromentry, m.distance));
  }
  for (PetscInt i = 0; i < n; i++) left[i] -= log(m.largest[i]);
  PetscCall(PetscFree3(m.entry, m.row, m.largest));
  PetscFunctionReturn(PETSC_SUCCESS);
}

/*
   IDRSMatchingClipRows - Limits the scalings of a matching

   Input Parameters:
+ rows  - the rows
- limit - the largest modulus of the logarithm of a scaling

   Input/Output Parameters:
+ left  - logarithms of the scalings of the rows
- right - logarithms of the scalings of the columns

   Note:
   If a scaling becomes larger, others become smaller, so that no entry has a modulus larger than 1.
*/
void IDRSMatchingClipRows(const IDRSRows *rows, double limit, double left[], double right[])
{
  PetscBool clipped = PETSC_FALSE;

  for (PetscInt i = 0; i < rows->n; i++) {
    if (fabs(left[i]) > limit || fabs(right[i]) > limit) clipped = PETSC_TRUE;
    left[i]  = PetscMax(-limit, PetscMin(limit, left[i]));
    right[i] = PetscMax(-limit, PetscMin(limit, right[i]));
  }
  for (PetscInt i = 0; clipped && i < rows->n; i++) {
    for (PetscInt p = rows->i[i]; p < rows->i[i + 1]; p++) {
      /* the scaled entry is exp(excess): the row is scaled down as far as the limit allows, then the column */
      const double excess = left[i] + right[rows->j[p]] + log((double)PetscAbsScalar(rows->a[p])),
                   cut    = PetscMin(excess, left[i] + limit);

      if (!(excess > 0.0)) continue;
      left[i] -= cut;
      right[rows->j[p]] -= excess - cut;
    }
  }
}
