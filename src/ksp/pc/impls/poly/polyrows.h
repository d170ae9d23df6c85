/*
   The loops over the rows of a copy of D^{-1}A whose values are of type PCPolyNumber: included once for each type, with names for
   the functions
*/

/* y = d (alpha u + beta (z + sums)), or d (alpha u + beta sums) if the diagonal is stored */
static void PCPolyInner(const PCPolyPacked *copy, const PCPolyArrays *arrays)
{
  const PCPolyNumber *values = (const PCPolyNumber *)copy->values;
  const PetscScalar   alpha = arrays->alpha, beta = arrays->beta, *u = arrays->u, *z = arrays->z, *d = arrays->d;
  PetscScalar        *y = arrays->y;

  for (PetscInt slice = 0; slice < copy->slices; slice++) {
    const PetscInt *order             = copy->order + slice * PCPOLY_SLICE;
    const PetscInt  count             = PetscMin(PCPOLY_SLICE, copy->n - slice * PCPOLY_SLICE);
    PetscScalar     sum[PCPOLY_SLICE] = {0};

    for (PetscInt slot = copy->first[slice]; slot < copy->first[slice + 1]; slot++) {
      const size_t        place   = IDRSSlotPlace(slot, PCPOLY_SLICE, 0);
      const PetscScalar  *x       = z + copy->base[slot];
      const uint16_t     *columns = copy->columns + place;
      const PCPolyNumber *a       = values + place;

      /* sum_i += a_ij z_j of one entry of each row */
      for (PetscInt lane = 0; lane < PCPOLY_SLICE; lane++) sum[lane] += (PetscScalar)a[lane] * x[columns[lane]];
    }
    for (PetscInt lane = 0; lane < count; lane++) {
      const PetscInt row = order[lane];

      y[row] = alpha * u[row] + beta * (copy->unit ? z[row] + sum[lane] : sum[lane]);
      if (d) y[row] *= d[row];
    }
  }
}

/* y += d beta times the entries outside the diagonal block */
static void PCPolyOuter(const PCPolyPacked *copy, const PetscScalar ghosts[], const PCPolyArrays *arrays)
{
  const PetscScalar   beta = arrays->beta, *d = arrays->d;
  PetscScalar        *y = arrays->y;
  const PCPolyNumber *a = (const PCPolyNumber *)copy->outervalues;

  for (PetscInt i = 0; i < copy->nouter; i++) {
    PetscScalar sum = 0.0;

    for (PetscInt k = copy->outerfirst[i]; k < copy->outerfirst[i + 1]; k++)
      sum += (PetscScalar)a[k] * ghosts[copy->outercolumns[k]];
    y[copy->outer[i]] += (d ? d[copy->outer[i]] * beta : beta) * sum;
  }
}
